/* Softmax of the rows of a matrix. */
#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * y = exp(x - max) / sum(exp(x - max)), with max and sum taken over each row.
 * An entry of -inf gives 0. A row that holds NaN or +inf, or nothing but -inf, is all NaN.
 */
typedef struct softmax_args {
    const float *x; /* [rows * cols], row major, no padding between rows */
    float *y;       /* [rows * cols], output */
    int64_t rows;
    int64_t cols;
} softmax_args;

/* Returns 0 on success. */
int softmax(const softmax_args *args);

#ifdef __cplusplus
}
#endif

#endif
