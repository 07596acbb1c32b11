#include "grouped_matmul.h"

/* One row of y: x[k] * w[k][n]. Walking w by rows keeps the inner loop on consecutive memory. */
static void row_product(int64_t n, int64_t k, const float *x, const float *w, float *y) {
    for (int64_t j = 0; j < n; j++) y[j] = 0.0f;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) y[j] += x[p] * w[p * n + j];
}

int grouped_matmul(const grouped_matmul_args *args) {
    const int64_t n = args->n, k = args->k;
    for (int64_t g = 0; g < args->groups; g++) {
        const float *w = args->w + g * k * n;
        for (int64_t r = args->offsets[g]; r < args->offsets[g + 1]; r++)
            row_product(n, k, args->x + r * k, w, args->y + r * n);
    }
    return 0;
}
