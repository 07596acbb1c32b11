// Product of two bf16 matrices with sums in float: one thread per element of c, neighbours along a row of b.

#include <cuda_bf16.h>

#include "matmul.h"

static __device__ float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ uint16_t rounded(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

extern "C" __global__ void matmul_elements(matmul_args args)
{
    const int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= args.m || col >= args.n)
        return;
    const uint16_t *a = args.a + row * args.k;
    const uint16_t *b = args.b + col;

    float sum = 0.0f;
    for (int64_t i = 0; i < args.k; i++)
        sum += widened(a[i]) * widened(b[i * args.n]);
    args.c[row * args.n + col] = rounded(sum);
}
