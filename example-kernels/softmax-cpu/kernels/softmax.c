/* Row softmax on the CPU: three passes over each row (maximum, exponentials and their sum, division). */
#include "softmax.h"

#include <math.h>

/*
 * The maximum may skip a NaN: exp(NaN - max) puts it back into the sum, and with it into the whole row.
 * Likewise +inf gives inf - inf = NaN, and so does a row of nothing but -inf.
 */
static float row_max(const float *x, int64_t cols)
{
    float max = -INFINITY;
    for (int64_t c = 0; c < cols; c++)
        max = x[c] > max ? x[c] : max;
    return max;
}

/* Leaves the exponentials in y. The sum runs in double so that long rows lose no digits. */
static float exponentials(const float *x, float max, float *restrict y, int64_t cols)
{
    double sum = 0.0;
    for (int64_t c = 0; c < cols; c++) {
        y[c] = expf(x[c] - max);
        sum += y[c];
    }
    return (float)sum;
}

static void divide_row(float *y, float sum, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        y[c] = y[c] / sum;
}

int softmax(const softmax_args *args)
{
    const int64_t cols = args->cols;

    for (int64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * cols;
        float *y = args->y + r * cols;
        const float sum = exponentials(x, row_max(x, cols), y, cols);

        divide_row(y, sum, cols);
    }
    return 0;
}
