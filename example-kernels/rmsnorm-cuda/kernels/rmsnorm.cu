// RMS normalisation by rows in bf16, forward and backward: one block per row and two passes over it, and one thread
// per column for the gradient of the weight.

#include <cuda_bf16.h>

#include "rmsnorm.h"

static __device__ float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ uint16_t rounded(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
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

// Each pass returns or writes this thread's share of the row. Neighbouring threads take neighbouring
// elements, so that a warp reads whole cache lines.

static __device__ float thread_squares(const uint16_t *x, int64_t cols)
{
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
        const float value = widened(x[i]);
        sum += value * value;
    }
    return sum;
}

static __device__ void thread_write(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t cols,
                                    float inv_rms)
{
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        y[i] = rounded(widened(x[i]) * inv_rms * widened(weight[i]));
}

extern "C" __global__ void rmsnorm_rows(rmsnorm_args args)
{
    extern __shared__ float scratch[];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const uint16_t *x = args.x + start;

    const float squares = block_sum(thread_squares(x, args.cols), scratch);
    const float inv_rms = rsqrtf(squares / (float)args.cols + args.eps);
    if (threadIdx.x == 0)
        args.inv_rms[blockIdx.x] = inv_rms;
    thread_write(x, args.weight, args.y + start, args.cols, inv_rms);
}

static __device__ float thread_dot(const uint16_t *x, const uint16_t *weight, const uint16_t *dy, int64_t cols)
{
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        sum += widened(weight[i]) * widened(dy[i]) * widened(x[i]);
    return sum;
}

static __device__ void thread_gradient(const uint16_t *x, const uint16_t *weight, const uint16_t *dy, uint16_t *dx,
                                       int64_t cols, float inv_rms, float correction)
{
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        dx[i] = rounded(inv_rms * (widened(weight[i]) * widened(dy[i])) - widened(x[i]) * correction);
}

extern "C" __global__ void rmsnorm_dx(rmsnorm_backward_args args)
{
    extern __shared__ float scratch[];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const uint16_t *x = args.x + start;
    const uint16_t *dy = args.dy + start;

    const float dot = block_sum(thread_dot(x, args.weight, dy, args.cols), scratch);
    const float inv_rms = args.inv_rms[blockIdx.x];
    const float correction = inv_rms * inv_rms * inv_rms / (float)args.cols * dot;
    thread_gradient(x, args.weight, dy, args.dx + start, args.cols, inv_rms, correction);
}

// x is scaled first: a product of two tiny numbers would underflow before inv_rms could lift it.
extern "C" __global__ void rmsnorm_dweight(rmsnorm_backward_args args)
{
    const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= args.cols)
        return;
    float sum = 0.0f;
    for (int64_t row = 0; row < args.rows; row++) {
        const int64_t at = row * args.cols + col;
        sum += widened(args.dy[at]) * (widened(args.x[at]) * args.inv_rms[row]);
    }
    args.dweight[col] = rounded(sum);
}
