#ifndef CROSS_ENTROPY_H
#define CROSS_ENTROPY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Cross entropy of each row of a row-major matrix of logits: loss = log(sum(exp(x))) - x[target].
 *
 * The pointers are device pointers; a uint16_t holds the bits of a bfloat16. All buffers start on a 256-byte
 * boundary; rows follow each other without padding, so a later row is only as aligned as `cols` makes it.
 * Arithmetic is in float, and so is the loss.
 *
 * A row that holds a NaN or a +inf, or nothing but -inf, gives NaN. A target whose logit is -inf in any other
 * row gives +inf.
 */
typedef struct cross_entropy_args {
    const uint16_t *x;      /* [rows * cols] */
    const int32_t *targets; /* [rows], from 0 to cols - 1 */
    float *loss;            /* [rows], every element is written */
    int64_t rows;
    int64_t cols;
} cross_entropy_args;

#ifdef __cplusplus
}
#endif

#endif
