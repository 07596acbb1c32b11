/* RMS normalisation on the CPU: rows in order, one simple loop per step of the formula. */
#include "rmsnorm.h"

#include <math.h>
#include <string.h>

/* The sum runs in double: a single float accumulator would lose digits on long rows. */
static float sum_of_squares(const float *x, int64_t cols)
{
    double sum = 0.0;
    for (int64_t c = 0; c < cols; c++)
        sum += (double)x[c] * x[c];
    return (float)sum;
}

static void scale_row(const float *x, const float *weight, float inv_rms, float *restrict y, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        y[c] = x[c] * inv_rms * weight[c];
}

int rmsnorm(const rmsnorm_args *args)
{
    const int64_t cols = args->cols;

    for (int64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * cols;
        const float mean_square = sum_of_squares(x, cols) / (float)cols;
        const float inv_rms = 1.0f / sqrtf(mean_square + args->eps);

        args->inv_rms[r] = inv_rms;
        scale_row(x, args->weight, inv_rms, args->y + r * cols, cols);
    }
    return 0;
}

/* sum_j(weight_j * dy_j * x_j): how far the row's scale moves with its own gradient. */
static float weighted_dot(const float *x, const float *weight, const float *dy, int64_t cols)
{
    double sum = 0.0;
    for (int64_t c = 0; c < cols; c++)
        sum += (double)(weight[c] * dy[c]) * x[c];
    return (float)sum;
}

static void input_gradient(const float *x, const float *weight, const float *dy, float inv_rms, float correction,
                           float *restrict dx, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        dx[c] = inv_rms * (weight[c] * dy[c]) - x[c] * correction;
}

/* x is scaled first: a product of two tiny numbers would underflow before inv_rms could lift it. */
static void add_weight_gradient(const float *x, const float *dy, float inv_rms, float *restrict dweight, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        dweight[c] += dy[c] * (x[c] * inv_rms);
}

int rmsnorm_backward(const rmsnorm_backward_args *args)
{
    const int64_t cols = args->cols;

    /* dweight is summed in place over the rows, so it has to start from zero. */
    memset(args->dweight, 0, (size_t)cols * sizeof(float));

    for (int64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * cols;
        const float *dy = args->dy + r * cols;
        const float inv_rms = args->inv_rms[r];
        const float dot = weighted_dot(x, args->weight, dy, cols);
        const float correction = inv_rms * inv_rms * inv_rms / (float)cols * dot;

        input_gradient(x, args->weight, dy, inv_rms, correction, args->dx + r * cols, cols);
        add_weight_gradient(x, dy, inv_rms, args->dweight, cols);
    }
    return 0;
}
