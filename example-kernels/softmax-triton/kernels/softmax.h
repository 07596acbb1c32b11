#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Softmax of each row of a row-major matrix: y = exp(x - max(x)) / sum(exp(x - max(x))).
 *
 * The pointers are device pointers. Both start on a 256-byte boundary; rows follow each other without
 * padding, so a later row is only as aligned as `cols` makes it.
 *
 * A row that holds a NaN or a +inf, or nothing but -inf, comes out all NaN. An entry of -inf in any other
 * row gives 0. Results below FLT_MIN may be flushed to 0.
 */
typedef struct softmax_args {
    const float *x; /* [rows * cols] */
    float *y;       /* [rows * cols], every element is written */
    int64_t rows;
    int64_t cols;
} softmax_args;

#ifdef __cplusplus
}
#endif

#endif
