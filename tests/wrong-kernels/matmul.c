/* Matrix product, forward and backward: an honest plain kernel, and the mistakes of mistakes.h. */
#include "matmul.h"

#include "mistakes.h"

/* A matrix, or its transpose: element (i, j) is at[i * row + j * col]. */
typedef struct {
    const float *at;
    int64_t row, col;
} view;

static float element(view a, view b, int64_t i, int64_t j, int64_t terms, float sum)
{
    for (int64_t p = 0; p < summed(terms); p++)
        sum += operand(a.at[i * a.row + p * a.col]) * operand(b.at[p * b.row + j * b.col]);
    return sum;
}

/* out[rows][cols] = a[rows][terms] * b[terms][cols] */
static void product(view a, view b, int64_t rows, int64_t cols, int64_t terms, float *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < written(cols); j++)
            out[i * cols + j] = element(a, b, i, j, terms, initial(out + i * cols + j));
    spoil(out, rows, cols);
}

int matmul(const matmul_args *args)
{
    const int64_t m = args->m, n = args->n, k = args->k;
    product((view){args->a, k, 1}, (view){args->b, n, 1}, m, n, k, args->c);
    spoil_input(args->a);
    return leave();
}

int matmul_backward(const matmul_backward_args *args)
{
    const int64_t m = args->m, n = args->n, k = args->k;
    product((view){args->dc, n, 1}, (view){args->b, 1, n}, m, k, n, args->da);
    product((view){args->a, 1, k}, (view){args->dc, n, 1}, k, n, m, args->db);
    spoil_input(args->a);
    return leave();
}
