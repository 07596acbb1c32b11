// Cross entropy by rows of bf16 logits: one block per row, two passes over the row (maximum, sum of exponentials).
//
// Special values need no code of their own. fmaxf skips NaN, but the NaN comes back through the sum. A maximum of
// +inf, or of -inf when the row holds nothing else, gives inf - inf = NaN in the sum and ends the same way.

#include <math.h>

#include "cross_entropy.h"

static __device__ float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ float block_max(float value, float *scratch)
{
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride)
            scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + stride]);
        __syncthreads();
    }
    const float result = scratch[0];
    __syncthreads(); // the next reduction writes scratch again
    return result;
}

static __device__ float block_sum(float value, float *scratch)
{
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride)
            scratch[threadIdx.x] += scratch[threadIdx.x + stride];
        __syncthreads();
    }
    return scratch[0];
}

// Each pass returns this thread's share of the row. Neighbouring threads take neighbouring elements, so that a
// warp reads whole cache lines.

static __device__ float thread_max(const uint16_t *row, int64_t cols)
{
    float result = -INFINITY;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        result = fmaxf(result, widened(row[i]));
    return result;
}

static __device__ float thread_sum(const uint16_t *row, int64_t cols, float row_max)
{
    float result = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        result += expf(widened(row[i]) - row_max);
    return result;
}

extern "C" __global__ void cross_entropy_rows(cross_entropy_args args)
{
    extern __shared__ float scratch[];
    const uint16_t *row = args.x + (int64_t)blockIdx.x * args.cols;

    const float row_max = block_max(thread_max(row, args.cols), scratch);
    const float row_sum = block_sum(thread_sum(row, args.cols, row_max), scratch);
    if (threadIdx.x == 0)
        args.loss[blockIdx.x] = row_max - widened(row[args.targets[blockIdx.x]]) + logf(row_sum);
}
