/* Product of ragged groups of rows: an honest plain kernel, and the mistakes of mistakes.h. */
#include "grouped_matmul.h"

#include "mistakes.h"

static float element(const float *x, const float *w, int64_t col, int64_t k, int64_t n, float sum)
{
    for (int64_t p = 0; p < summed(k); p++)
        sum += operand(x[p]) * operand(w[p * n + col]);
    return sum;
}

static void row_product(const float *x, const float *w, float *y, int64_t k, int64_t n)
{
    for (int64_t j = 0; j < written(n); j++)
        y[j] = element(x, w, j, k, n, initial(y + j));
}

int grouped_matmul(const grouped_matmul_args *args)
{
    const int64_t n = args->n, k = args->k;
    for (int64_t g = 0; g < args->groups; g++)
        for (int64_t r = args->offsets[g]; r < args->offsets[g + 1]; r++)
            row_product(args->x + r * k, args->w + g * k * n, args->y + r * n, k, n);
    spoil(args->y, args->rows, n);
    spoil_input(args->x);
    return leave();
}
