/* Grouped f32 matrix product: consecutive rows of x share one weight matrix per group. */
#ifndef GROUPED_MATMUL_H
#define GROUPED_MATMUL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[r] = x[r] * w[g] for offsets[g] <= r < offsets[g + 1]; row major, no row padding. */
typedef struct grouped_matmul_args {
    const float *x;         /* [rows * k] */
    const float *w;         /* [groups * k * n], one k x n matrix per group */
    const int32_t *offsets; /* [groups + 1], starts at 0, ends at rows, never decreases */
    float *y;               /* [rows * n] every element is written */
    int64_t rows;
    int64_t groups;
    int64_t k;
    int64_t n;
} grouped_matmul_args;

int grouped_matmul(const grouped_matmul_args *args);

#ifdef __cplusplus
}
#endif

#endif
