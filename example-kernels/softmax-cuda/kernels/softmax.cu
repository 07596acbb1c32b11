// Row softmax in f32: one block per row, three passes over the row (maximum, sum, result).
//
// Special values need no code of their own. fmaxf skips NaN, but the NaN comes back through the sum, and a
// NaN sum turns the whole row to NaN. A maximum of +inf, or of -inf when the row holds nothing else, gives
// inf - inf = NaN in the sum and ends the same way.

#include <math.h>

#include "softmax.h"

static __device__ float exp_shifted(float x, float row_max)
{
    return expf(x - row_max);
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
    const float result = scratch[0];
    __syncthreads(); // the next reduction writes scratch again
    return result;
}

// Each pass returns or writes this thread's share of the row. Neighbouring threads take neighbouring
// elements, so that a warp reads whole cache lines.

static __device__ float thread_max(const float *row, int64_t cols)
{
    float result = -INFINITY;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        result = fmaxf(result, row[i]);
    return result;
}

static __device__ float thread_sum(const float *row, int64_t cols, float row_max)
{
    float result = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        result += exp_shifted(row[i], row_max);
    return result;
}

static __device__ void thread_write(const float *row, float *out, int64_t cols, float row_max, float row_sum)
{
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        out[i] = exp_shifted(row[i], row_max) / row_sum;
}

extern "C" __global__ void softmax_rows(softmax_args args)
{
    extern __shared__ float scratch[];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const float *row = args.x + start;

    const float row_max = block_max(thread_max(row, args.cols), scratch);
    const float row_sum = block_sum(thread_sum(row, args.cols, row_max), scratch);
    thread_write(row, args.y + start, args.cols, row_max, row_sum);
}
