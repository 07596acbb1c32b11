// Row softmax in two phases: maximum and sum of quarters of rows, and, once all blocks have theirs, the results. It needs a
// cooperative launch.
#include "softmax.h"

#include <cooperative_groups.h>
#include <math.h>

constexpr int THREADS = 128, PARTS = 4;

struct Part {
    float largest, sum;
};

// A NaN is in the sum, even where the maximum drops it; what is -inf adds nothing, even to a part that is nothing else.
static __device__ Part joined(Part a, Part b)
{
    const float largest = fmaxf(a.largest, b.largest);
    if (largest == -INFINITY)
        return {largest, a.sum + b.sum};
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

static __device__ Part of_part(const float *row, int64_t cols, int part)
{
    __shared__ Part threads[THREADS];
    Part own = {-INFINITY, 0.0f};
    for (int64_t i = part * (int64_t)THREADS + threadIdx.x; i < cols; i += PARTS * THREADS) {
        const float x = row[i];
        own = joined(own, x == -INFINITY ? Part{x, 0.0f} : Part{x, x == x ? 1.0f : x});
    }
    threads[threadIdx.x] = own;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            threads[threadIdx.x] = joined(threads[threadIdx.x], threads[threadIdx.x + half]);
    }
    __syncthreads();
    const Part whole = threads[0];
    __syncthreads();
    return whole;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_together(const float *x, float *y, int64_t rows, int64_t cols, Part *parts)
{
    for (int64_t item = blockIdx.x; item < rows * PARTS; item += gridDim.x) {
        const Part part = of_part(x + item / PARTS * cols, cols, (int)(item % PARTS));
        if (threadIdx.x == 0)
            parts[item] = part;
    }
    cooperative_groups::this_grid().sync();
    for (int64_t item = blockIdx.x; item < rows * PARTS; item += gridDim.x) {
        const int64_t row = item / PARTS;
        Part whole = parts[row * PARTS];
        for (int part = 1; part < PARTS; part++)
            whole = joined(whole, parts[row * PARTS + part]);
        for (int64_t i = item % PARTS * THREADS + threadIdx.x; i < cols; i += PARTS * THREADS)
            y[row * cols + i] = expf(x[row * cols + i] - whole.largest) / whole.sum;
    }
}
