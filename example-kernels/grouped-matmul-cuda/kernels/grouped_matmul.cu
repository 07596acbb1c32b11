// Products of ragged groups of rows with the matrices of their groups, in bf16 with sums in float: one thread per element
// of y, which looks up its row's group.

#include <cuda_bf16.h>

#include "grouped_matmul.h"

static __device__ float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ uint16_t rounded(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

extern "C" __global__ void grouped_matmul_elements(grouped_matmul_args args)
{
    const int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= args.rows || col >= args.n)
        return;
    int64_t group = 0;
    while (args.offsets[group + 1] <= row)
        group++;
    const uint16_t *x = args.x + row * args.k;
    const uint16_t *w = args.w + group * args.k * args.n + col;

    float sum = 0.0f;
    for (int64_t i = 0; i < args.k; i++)
        sum += widened(x[i]) * widened(w[i * args.n]);
    args.y[row * args.n + col] = rounded(sum);
}
