#include "matmul.h"

/* c = a * b. Walking b by rows keeps the inner loop on consecutive memory. */
int matmul(const matmul_args *args) {
    const int64_t m = args->m, n = args->n, k = args->k;
    for (int64_t i = 0; i < m; i++) {
        float *c = args->c + i * n;
        for (int64_t j = 0; j < n; j++) c[j] = 0.0f;
        for (int64_t p = 0; p < k; p++) {
            const float a = args->a[i * k + p];
            const float *b = args->b + p * n;
            for (int64_t j = 0; j < n; j++) c[j] += a * b[j];
        }
    }
    return 0;
}

/* da = dc * b^T: element (i, p) is the dot product of row i of dc and row p of b. */
static void grad_a(const matmul_backward_args *args) {
    const int64_t m = args->m, n = args->n, k = args->k;
    for (int64_t i = 0; i < m; i++) {
        const float *dc = args->dc + i * n;
        for (int64_t p = 0; p < k; p++) {
            const float *b = args->b + p * n;
            float sum = 0.0f;
            for (int64_t j = 0; j < n; j++) sum += dc[j] * b[j];
            args->da[i * k + p] = sum;
        }
    }
}

/* db = a^T * dc: every row of dc is added to all rows of db, scaled by one element of a. */
static void grad_b(const matmul_backward_args *args) {
    const int64_t m = args->m, n = args->n, k = args->k;
    for (int64_t x = 0; x < k * n; x++) args->db[x] = 0.0f;
    for (int64_t i = 0; i < m; i++) {
        const float *dc = args->dc + i * n;
        for (int64_t p = 0; p < k; p++) {
            const float a = args->a[i * k + p];
            float *db = args->db + p * n;
            for (int64_t j = 0; j < n; j++) db[j] += a * dc[j];
        }
    }
}

int matmul_backward(const matmul_backward_args *args) {
    grad_a(args);
    grad_b(args);
    return 0;
}
