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
    const void *prepared; /* what grouped_matmul_prepare made of w; null where the kernel has none */
} grouped_matmul_args;

int grouped_matmul(const grouped_matmul_args *args);

/*
 * Optional: a kernel that exports these two gets its weights prepared once a step, and finds the result in `prepared` of
 * every entry. The first returns how many bytes that takes; both are given the sizes, the second also `w`, and
 * every other pointer is null. The time of it is part of the step.
 */
int64_t grouped_matmul_prepare_size(const grouped_matmul_args *args);
int grouped_matmul_prepare(const grouped_matmul_args *args, void *prepared);

#ifdef __cplusplus
}
#endif

#endif
