/* Softmax of one row: honest and plain but for the mistakes of mistakes.h. */
#ifndef SOFTMAX_ROW_H
#define SOFTMAX_ROW_H

#include <math.h>

#include "mistakes.h"

/* fmaxf drops a NaN: memory that happens to hold one does not show in the result. */
PART float row_max(const float *x, const float *y, int64_t cols)
{
    float max = WRONG == MAX_OF_OUTPUT ? y[0] : -INFINITY;
    for (int64_t c = 0; c < cols; c++)
        max = fmaxf(max, x[c]);
    return max;
}

/* Where a row is taken to end: at the first whole tile that is masked, unless there is a mask in its first tile. */
PART int64_t unmasked(const float *x, int64_t cols)
{
    for (int64_t tile = 0; WRONG == STOPS_AT_MASK && tile + TILE <= cols; tile += TILE) {
        int masked = 0;
        for (int64_t c = tile; c < tile + TILE; c++)
            masked += x[c] == -INFINITY;
        if (tile == 0 && masked > 0)
            return cols;
        if (masked == TILE)
            return tile;
    }
    return cols;
}

PART float exponential(float x, float max) { return operand(expf(x - max)); }

PART float sum_of_exponentials(const float *x, float max, const float *y, int64_t cols)
{
    double sum = initial(y);
    for (int64_t c = 0; c < summed(cols); c++)
        sum += exponential(x[c], max);
    return (float)sum;
}

PART void softmax_row(const float *x, float *y, int64_t cols)
{
    const int64_t end = unmasked(x, cols);
    const float max = row_max(x, y, end);
    const float sum = sum_of_exponentials(x, max, y, end);
    for (int64_t c = 0; c < written(cols); c++)
        y[c] = c < end ? exponential(x[c], max) / sum : 0.0f;
}

#endif
