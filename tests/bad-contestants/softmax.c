/*
 * Row softmax: an honest plain kernel, and one misdeed chosen by -DMISDEED=<name> (misdeeds.h). Unless its misdeed is about the
 * results, a build computes all of them as the honest one does: what is judged is what it does besides.
 */
#define _GNU_SOURCE
#include "softmax.h"

#include <math.h>

/* Its loops lie alike in all builds, whatever a misdeed adds: code that is moved may be faster by a per cent or two for that alone. */
#define LIES_ALIKE __attribute__((unused, noinline, aligned(4096)))

/* The honest kernel: three passes over each row. */
LIES_ALIKE static void softmax_row(const float *x, float *y, int64_t cols)
{
    float max = -INFINITY;
    double sum = 0.0;
    for (int64_t c = 0; c < cols; c++)
        max = x[c] > max ? x[c] : max;
    for (int64_t c = 0; c < cols; c++) {
        y[c] = expf(x[c] - max);
        sum += y[c];
    }
    for (int64_t c = 0; c < cols; c++)
        y[c] = y[c] / (float)sum;
}

LIES_ALIKE static void honest_softmax(const softmax_args *args)
{
    for (int64_t r = 0; r < args->rows; r++)
        softmax_row(args->x + r * args->cols, args->y + r * args->cols, args->cols);
}

/* The number of this call, from 1. */
static int call;

#include "misdeeds.h"

int softmax(const softmax_args *args)
{
    call++;
    return misdeed(args);
}
