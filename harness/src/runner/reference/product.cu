// A product of two matrices in f64, and the magnitude of what each element is the sum of: what `product.rs` computes on the
// host, term by term in the same order and without fused operations, so that the results are the same to the last bit.
// `product.ptx` is made from this file and checked in beside it:
//
//     cargo test -p kopt-harness --features runner renew_the_reference -- --ignored
//
// No memory is shared and no thread waits for another: each has 4 × 4 elements of a tile, 16 apart. What a thread does is C
// as well, so that tests can run one after the other without a GPU.

#ifdef __CUDACC__
#define FUNCTION static __device__
#else
#define FUNCTION static
#include <math.h>
#endif

typedef unsigned long long u64;

enum { EACH = 4, SIDE = 16, TILE = EACH * SIDE, THREADS = SIDE * SIDE };

// `left` is rows × inner, `right` is inner × cols.
typedef struct Matrices {
    const float *left;
    const float *right;
    double *values;
    double *magnitudes;
    u64 rows;
    u64 inner;
    u64 cols;
} Matrices;

FUNCTION u64 smaller(u64 a, u64 b)
{
    return a < b ? a : b;
}

// What one thread does of one tile.
FUNCTION void share(const Matrices *of, u64 tile, u64 thread)
{
    const u64 across = (of->cols + TILE - 1) / TILE;
    const u64 row = tile / across * TILE + thread / SIDE, col = tile % across * TILE + thread % SIDE;
    const float *left[EACH], *right[EACH];
    double values[EACH][EACH], magnitudes[EACH][EACH];
    for (int i = 0; i < EACH; i++) {
        // Past an edge the last one does: what comes of it is not kept.
        left[i] = of->left + smaller(row + SIDE * i, of->rows - 1) * of->inner;
        right[i] = of->right + smaller(col + SIDE * i, of->cols - 1);
        for (int j = 0; j < EACH; j++)
            values[i][j] = magnitudes[i][j] = 0.0;
    }
    for (u64 at = 0; at < of->inner; at++) {
        double a[EACH], b[EACH];
        for (int i = 0; i < EACH; i++) {
            a[i] = left[i][at];
            b[i] = right[i][at * of->cols];
        }
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++) {
                const double term = a[i] * b[j];
                values[i][j] += term;
                magnitudes[i][j] += fabs(term);
            }
        }
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            const u64 r = row + SIDE * i, c = col + SIDE * j;
            if (r < of->rows && c < of->cols) {
                of->values[r * of->cols + c] = values[i][j];
                of->magnitudes[r * of->cols + c] = magnitudes[i][j];
            }
        }
    }
}

FUNCTION u64 tiles(const Matrices *of)
{
    return (of->rows + TILE - 1) / TILE * ((of->cols + TILE - 1) / TILE);
}

#ifdef __CUDACC__
// Blocks of THREADS; any number of them does.
extern "C" __global__ void __launch_bounds__(THREADS) product(Matrices of)
{
    for (u64 tile = blockIdx.x; tile < tiles(&of); tile += gridDim.x)
        share(&of, tile, threadIdx.x);
}
#else
// The same, one thread after the other.
void product(const Matrices *of)
{
    for (u64 tile = 0; tile < tiles(of); tile++)
        for (u64 thread = 0; thread < THREADS; thread++)
            share(of, tile, thread);
}
#endif
