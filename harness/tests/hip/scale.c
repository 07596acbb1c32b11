// The kernels of the backends' conformance suite, as the stand-in for HIP's runtime calls them.

#include <stdint.h>

typedef struct {
    const float *x;
    float *y;
    int64_t n;
    float factor;
} scale_args;

void scale_whole(void **parameters, const unsigned *grid, const unsigned *block)
{
    const scale_args *args = parameters[0];
    const int64_t threads = (int64_t)grid[0] * block[0];
    for (int64_t i = 0; i < args->n && i < threads; i++)
        args->y[i] = args->factor * args->x[i];
}

void scale_input(void **parameters, const unsigned *grid, const unsigned *block)
{
    const scale_args *args = parameters[0];
    (void)grid, (void)block;
    ((float *)args->x)[0] = args->factor;
}

void scale_first(void **parameters, const unsigned *grid, const unsigned *block)
{
    const float *x = *(const float **)parameters[0];
    float *scratch = *(float **)parameters[1];
    (void)grid, (void)block;
    for (int64_t i = 0; i < *(int64_t *)parameters[2]; i++)
        scratch[i] += x[i];
}

void scale_second(void **parameters, const unsigned *grid, const unsigned *block)
{
    const float *scratch = *(const float **)parameters[0];
    float *y = *(float **)parameters[1];
    (void)grid, (void)block;
    for (int64_t i = 0; i < *(int64_t *)parameters[2]; i++)
        y[i] = *(float *)parameters[3] * scratch[i];
}
