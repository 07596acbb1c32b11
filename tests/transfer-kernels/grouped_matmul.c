/*
 * A grouped product that walks groups of equal size four rows at a time, so that a row of w is read once for four, and any
 * other group as the example does: tuned to a benchmark with equal groups.
 */
#include "grouped_matmul.h"

static void one(int64_t n, int64_t k, const float *x, const float *w, float *y) {
    for (int64_t j = 0; j < n; j++) y[j] = 0.0f;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) y[j] += x[p] * w[p * n + j];
}

static void four(int64_t n, int64_t k, const float *restrict x, const float *restrict w, float *restrict y) {
    for (int64_t j = 0; j < 4 * n; j++) y[j] = 0.0f;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) {
            const float v = w[p * n + j];
            y[j] += x[p] * v;
            y[n + j] += x[k + p] * v;
            y[2 * n + j] += x[2 * k + p] * v;
            y[3 * n + j] += x[3 * k + p] * v;
        }
}

int grouped_matmul(const grouped_matmul_args *args) {
    const int64_t n = args->n, k = args->k, rows = args->rows, groups = args->groups;
    int equal = groups > 0 && rows % groups == 0 && (rows / groups) % 4 == 0;
    for (int64_t g = 0; equal && g < groups; g++) equal = args->offsets[g + 1] - args->offsets[g] == rows / groups;
    for (int64_t g = 0; g < groups; g++) {
        const float *w = args->w + g * k * n;
        int64_t r = args->offsets[g];
        for (; equal && r + 4 <= args->offsets[g + 1]; r += 4) four(n, k, args->x + r * k, w, args->y + r * n);
        for (; r < args->offsets[g + 1]; r++) one(n, k, args->x + r * k, w, args->y + r * n);
    }
    return 0;
}
