#ifndef MATMUL_H
#define MATMUL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * c[m][n] = a[m][k] * b[k][n], row major, no row padding.
 *
 * The pointers are device pointers; a uint16_t holds the bits of a bfloat16. All buffers start on a 256-byte
 * boundary; a later row is only as aligned as its length makes it. Sums are in float, and every result is rounded once.
 * Infinity and NaN spread as in the plain triple loop. A sum of nothing (k = 0) is zero.
 */
typedef struct matmul_args {
    const uint16_t *a; /* [m * k] */
    const uint16_t *b; /* [k * n] */
    uint16_t *c;       /* [m * n], every element is written */
    int64_t m;
    int64_t n;
    int64_t k;
} matmul_args;

#ifdef __cplusplus
}
#endif

#endif
