/* Dense f32 matrix product and its gradients. Row major everywhere, no row padding. */
#ifndef MATMUL_H
#define MATMUL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* c[m][n] = a[m][k] * b[k][n] */
typedef struct matmul_args {
    const float *a; /* [m * k] activations */
    const float *b; /* [k * n] weight */
    float *c;       /* [m * n] every element is written */
    int64_t m;
    int64_t n;
    int64_t k;
    const void *prepared; /* what matmul_prepare made of b; null where the kernel has none */
} matmul_args;

/* da[m][k] = dc[m][n] * b^T and db[k][n] = a^T * dc */
typedef struct matmul_backward_args {
    const float *a;  /* [m * k] */
    const float *b;  /* [k * n] */
    const float *dc; /* [m * n] gradient of c */
    float *da;       /* [m * k] every element is written */
    float *db;       /* [k * n] every element is written */
    int64_t m;
    int64_t n;
    int64_t k;
    const void *prepared; /* the same as in the forward pass */
} matmul_backward_args;

int matmul(const matmul_args *args);
int matmul_backward(const matmul_backward_args *args);

/*
 * Optional: a kernel that exports these two gets its weight prepared once a step, and finds the result in `prepared` of
 * every entry. The first returns how many bytes that takes; both are given the sizes, the second also `b`, and
 * every other pointer is null. The time of it is part of the step.
 */
int64_t matmul_prepare_size(const matmul_args *args);
int matmul_prepare(const matmul_args *args, void *prepared);

#ifdef __cplusplus
}
#endif

#endif
