#ifndef RMSNORM_H
#define RMSNORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Root-mean-square normalisation of the rows of a matrix in bf16, forward and backward.
 *
 * The pointers are device pointers, and a uint16_t holds the bits of a bf16. Buffers start on a 256-byte boundary; rows
 * follow each other without padding. Arithmetic is in f32, and each result is rounded once.
 */

/* y = x * inv_rms * weight, with inv_rms = 1 / sqrt(mean(x^2) + eps) of each row. */
typedef struct rmsnorm_args {
    const uint16_t *x;      /* [rows * cols] */
    const uint16_t *weight; /* [cols], one gain per column */
    uint16_t *y;            /* [rows * cols], every element is written */
    float *inv_rms;         /* [rows], kept for the backward pass */
    int64_t rows;
    int64_t cols;
    float eps; /* keeps the root away from zero */
} rmsnorm_args;

/*
 * dx        = inv_rms * (weight * dy) - x * inv_rms^3 / cols * sum_j(weight_j * dy_j * x_j)
 * dweight_j = sum over rows of dy * x * inv_rms
 */
typedef struct rmsnorm_backward_args {
    const uint16_t *x;      /* [rows * cols], the input of the forward pass */
    const uint16_t *weight; /* [cols] */
    const float *inv_rms;   /* [rows], what the forward pass saved */
    const uint16_t *dy;     /* [rows * cols], gradient of y */
    uint16_t *dx;           /* [rows * cols], every element is written */
    uint16_t *dweight;      /* [cols], every element is written */
    int64_t rows;
    int64_t cols;
} rmsnorm_backward_args;

#ifdef __cplusplus
}
#endif

#endif
