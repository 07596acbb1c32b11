/* RMS normalisation, forward and backward: an honest plain kernel, and the mistakes of mistakes.h. */
#include "rmsnorm.h"

#include <math.h>

#include "mistakes.h"

static float sum_of_squares(const float *x, int64_t cols)
{
    double sum = 0.0;
    for (int64_t c = 0; c < summed(cols); c++)
        sum += (double)operand(x[c]) * operand(x[c]);
    return (float)sum;
}

static void normalise_row(const float *x, const float *weight, float eps, float *y, float *inv_rms, int64_t cols)
{
    const float mean = (initial(inv_rms) + sum_of_squares(x, cols)) / (float)cols;
    *inv_rms = 1.0f / sqrtf(mean + eps);
    for (int64_t c = 0; c < written(cols); c++)
        y[c] = operand(x[c]) * *inv_rms * operand(weight[c]);
}

int rmsnorm(const rmsnorm_args *args)
{
    const int64_t cols = args->cols;
    for (int64_t r = 0; r < args->rows; r++)
        normalise_row(args->x + r * cols, args->weight, args->eps, args->y + r * cols, args->inv_rms + r, cols);
    spoil(args->y, args->rows, cols);
    spoil_input(args->x);
    return leave();
}

static float weighted_dot(const float *x, const float *weight, const float *dy, int64_t cols)
{
    double sum = 0.0;
    for (int64_t c = 0; c < summed(cols); c++)
        sum += (double)(operand(weight[c]) * operand(dy[c])) * operand(x[c]);
    return (float)sum;
}

static void input_gradient(const rmsnorm_backward_args *args, int64_t row)
{
    const int64_t cols = args->cols;
    const float *x = args->x + row * cols, *dy = args->dy + row * cols, inv_rms = args->inv_rms[row];
    const float correction = inv_rms * inv_rms * inv_rms / (float)cols * weighted_dot(x, args->weight, dy, cols);
    for (int64_t c = 0; c < written(cols); c++)
        args->dx[row * cols + c] = inv_rms * (operand(args->weight[c]) * operand(dy[c])) - operand(x[c]) * correction;
}

/* x is scaled first: a product of two tiny numbers would underflow before inv_rms could lift it. */
static float weight_gradient(const rmsnorm_backward_args *args, int64_t col)
{
    float sum = initial(args->dweight + col);
    for (int64_t r = 0; r < summed(args->rows); r++) {
        const int64_t at = r * args->cols + col;
        sum += operand(args->dy[at]) * (operand(args->x[at]) * args->inv_rms[r]);
    }
    return sum;
}

int rmsnorm_backward(const rmsnorm_backward_args *args)
{
    for (int64_t r = 0; r < args->rows; r++)
        input_gradient(args, r);
    for (int64_t c = 0; c < args->cols; c++)
        args->dweight[c] = weight_gradient(args, c);
    spoil(args->dx, args->rows, args->cols);
    spoil_input(args->x);
    return leave();
}
