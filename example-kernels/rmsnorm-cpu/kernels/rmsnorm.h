/* Root-mean-square normalisation of the rows of a matrix, forward and backward. */
#ifndef RMSNORM_H
#define RMSNORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y = x * inv_rms * weight, with inv_rms = 1 / sqrt(mean(x^2) + eps) of each row. */
typedef struct rmsnorm_args {
    const float *x;      /* [rows * cols], row major, no padding between rows */
    const float *weight; /* [cols], one gain per column */
    float *y;            /* [rows * cols], output */
    float *inv_rms;      /* [rows], output, kept for the backward pass */
    int64_t rows;
    int64_t cols;
    float eps; /* keeps the root away from zero */
    const void *prepared; /* what rmsnorm_prepare made of weight; null where the kernel has none */
} rmsnorm_args;

/*
 * dx        = inv_rms * (weight * dy) - x * inv_rms^3 / cols * sum_j(weight_j * dy_j * x_j)
 * dweight_j = sum over rows of dy * x * inv_rms
 */
typedef struct rmsnorm_backward_args {
    const float *x;       /* [rows * cols], the input of the forward pass */
    const float *weight;  /* [cols] */
    const float *inv_rms; /* [rows], what the forward pass saved */
    const float *dy;      /* [rows * cols], gradient of y */
    float *dx;            /* [rows * cols], output */
    float *dweight;       /* [cols], output */
    int64_t rows;
    int64_t cols;
    const void *prepared; /* the same as in the forward pass */
} rmsnorm_backward_args;

/* Both return 0 on success. */
int rmsnorm(const rmsnorm_args *args);
int rmsnorm_backward(const rmsnorm_backward_args *args);

/*
 * Optional: a kernel that exports these two gets its weight prepared once a step, and finds the result in `prepared` of
 * every entry. The first returns how many bytes that takes; both are given the sizes, the second also `weight`, and
 * every other pointer is null. The time of it is part of the step.
 */
int64_t rmsnorm_prepare_size(const rmsnorm_args *args);
int rmsnorm_prepare(const rmsnorm_args *args, void *prepared);

#ifdef __cplusplus
}
#endif

#endif
