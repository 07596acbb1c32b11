// RMS normalisation in bf16, arithmetic in f32: one block per row, and for the gradient of the weight one thread per column. It
// compiles for CUDA, too.

#include "kopt_device.h"
#include "rmsnorm.h"

// A bf16 as its bits: the header is read by compilers that know no such type.
static __device__ float load(const uint16_t *from, int64_t index)
{
    return kopt_float(((const kopt_bf16 *)from)[index]);
}

static __device__ void store(uint16_t *to, int64_t index, float value)
{
    ((kopt_bf16 *)to)[index] = kopt_from_float<kopt_bf16>(value);
}

// Each warp sums its own, then every warp sums what all have left. Blocks are whole warps.
static __device__ float block_sum(float value, float *scratch)
{
    for (int distance = KOPT_WARP / 2; distance > 0; distance /= 2)
        value += kopt_shuffle_xor(KOPT_ALL_LANES, value, distance);
    if (kopt_lane() == 0)
        scratch[threadIdx.x / KOPT_WARP] = value;
    __syncthreads();
    float result = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / KOPT_WARP; warp++)
        result += scratch[warp];
    return result;
}

extern "C" __global__ void KOPT_BOUNDS(256, 1) rmsnorm_rows(rmsnorm_args args)
{
    __shared__ float scratch[KOPT_MOST_WARPS];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const uint16_t *row = args.x + start;

    float squares = 0.0f;
    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x) {
        const float x = load(row, i);
        squares += x * x;
    }
    const float mean_square = block_sum(squares, scratch) / (float)args.cols;
    const float inv_rms = 1.0f / sqrtf(mean_square + args.eps);

    if (threadIdx.x == 0)
        args.inv_rms[blockIdx.x] = inv_rms;
    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        store(args.y + start, i, load(row, i) * inv_rms * load(args.weight, i));
}

extern "C" __global__ void KOPT_BOUNDS(256, 1) rmsnorm_backward_rows(rmsnorm_backward_args args)
{
    __shared__ float scratch[KOPT_MOST_WARPS];
    const int64_t start = (int64_t)blockIdx.x * args.cols;
    const uint16_t *row = args.x + start;
    const uint16_t *dy = args.dy + start;
    const float inv_rms = args.inv_rms[blockIdx.x];

    float dot = 0.0f;
    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        dot += load(args.weight, i) * load(dy, i) * load(row, i);
    const float correction = inv_rms * inv_rms * inv_rms / (float)args.cols * block_sum(dot, scratch);

    for (int64_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        store(args.dx + start, i, inv_rms * (load(args.weight, i) * load(dy, i)) - load(row, i) * correction);
}

// x is scaled first: a product of two tiny numbers would underflow before inv_rms could lift it.
extern "C" __global__ void KOPT_BOUNDS(256, 1) rmsnorm_backward_columns(rmsnorm_backward_args args)
{
    const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= args.cols)
        return;
    float sum = 0.0f;
    for (int64_t row = 0; row < args.rows; row++) {
        const int64_t i = row * args.cols + column;
        sum += load(args.dy, i) * (load(args.x, i) * args.inv_rms[row]);
    }
    store(args.dweight, column, sum);
}
