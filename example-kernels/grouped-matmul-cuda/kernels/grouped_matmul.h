#ifndef GROUPED_MATMUL_H
#define GROUPED_MATMUL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * y[r] = x[r] * w[g] for offsets[g] <= r < offsets[g + 1]: consecutive rows of x share one matrix per group. Row major,
 * no row padding.
 *
 * The pointers are device pointers; a uint16_t holds the bits of a bfloat16. All buffers start on a 256-byte
 * boundary; a later row is only as aligned as its length makes it. Sums are in float, and every result is rounded once.
 * Infinity and NaN spread as in the plain triple loop. A sum of nothing (k = 0) is zero.
 */
typedef struct grouped_matmul_args {
    const uint16_t *x;      /* [rows * k] */
    const uint16_t *w;      /* [groups * k * n], one k x n matrix per group */
    const int32_t *offsets; /* [groups + 1], starts at 0, ends at rows, never decreases; groups may be empty */
    uint16_t *y;            /* [rows * n], every element is written */
    int64_t rows;
    int64_t groups;
    int64_t k;
    int64_t n;
} grouped_matmul_args;

#ifdef __cplusplus
}
#endif

#endif
