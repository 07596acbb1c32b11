// Row softmax in f32: one block per row, three passes over the row (maximum, sum, result). It compiles for CUDA, too.
//
// Special values need no code of their own. fmaxf skips NaN, but the NaN comes back through the sum, and a
// NaN sum turns the whole row to NaN. A maximum of +inf, or of -inf when the row holds nothing else, gives
// inf - inf = NaN in the sum and ends the same way.

#include <math.h>

#include "kopt_device.h"
#include "softmax.h"

struct Maximum {
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
    static __device__ float of(float a, float b) { return a + b; }
};

// Each warp combines its own, then every warp combines what all have left. Blocks are whole warps.
template <typename Combine>
static __device__ float block_combine(float value, float start, float *scratch)
{
    for (int distance = KOPT_WARP / 2; distance > 0; distance /= 2)
        value = Combine::of(value, kopt_shuffle_xor(KOPT_ALL_LANES, value, distance));
    if (kopt_lane() == 0)
        scratch[threadIdx.x / KOPT_WARP] = value;
    __syncthreads();
    float result = start;
    for (unsigned warp = 0; warp < blockDim.x / KOPT_WARP; warp++)
        result = Combine::of(result, scratch[warp]);
    __syncthreads(); // the next one writes scratch again
    return result;
}

extern "C" __global__ void KOPT_BOUNDS(256, 1) softmax_rows(softmax_args args)
{
    __shared__ float scratch[KOPT_MOST_WARPS];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const float *row = args.x + start;
    float *out = args.y + start;

    // Neighbouring threads take neighbouring elements, so that a warp reads whole cache lines.
    float largest = -INFINITY;
    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    const float row_max = block_combine<Maximum>(largest, -INFINITY, scratch);

    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        sum += expf(row[i] - row_max);
    const float row_sum = block_combine<Sum>(sum, 0.0f, scratch);

    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        out[i] = expf(row[i] - row_max) / row_sum;
}
