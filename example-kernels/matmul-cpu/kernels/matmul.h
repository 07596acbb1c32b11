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
} matmul_backward_args;

int matmul(const matmul_args *args);
int matmul_backward(const matmul_backward_args *args);

#ifdef __cplusplus
}
#endif

#endif
