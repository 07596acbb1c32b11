// Attention of new positions to a cache: one block per query. The keys come in chunks of one per thread: scores, the
// running maximum, weights, and then every thread adds up some columns of the weighted values.
//
// fmaxf skips NaN, but the NaN comes back through the weights. An infinity in a query makes every score infinite or NaN,
// and inf - inf = NaN ends the same way.

#include <cuda_bf16.h>
#include <math.h>

#include "decode_attention.h"

static __device__ float widened(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ uint16_t rounded(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
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
    __syncthreads(); // the next chunk writes scratch again
    return result;
}

static __device__ float score_of(const float *query, const uint16_t *key, int64_t d)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < d; i++)
        sum += query[i] * widened(key[i]);
    return sum;
}

extern "C" __global__ void decode_attention_query(decode_attention_args args)
{
    extern __shared__ float shared[];
    const int64_t d = args.d;
    float *query = shared;
    float *sums = query + d; // weighted sums of the columns of v
    float *weights = sums + d;
    float *scratch = weights + blockDim.x;

    // Heads of a group stand side by side, so that (batch, head) / group is (batch, head of k and v).
    const int64_t row = blockIdx.x;
    const int64_t cache = row / args.s / (args.h / args.h_kv);
    const int64_t seen = args.t - args.s + row % args.s + 1;
    const uint16_t *k = args.k + cache * args.t * d;
    const uint16_t *v = args.v + cache * args.t * d;

    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
        query[i] = widened(args.q[row * d + i]);
        sums[i] = 0.0f;
    }
    __syncthreads();

    float max = -INFINITY;
    float sum = 0.0f;
    for (int64_t start = 0; start < seen; start += blockDim.x) {
        const int64_t key = start + threadIdx.x;
        const float score = key < seen ? score_of(query, k + key * d, d) * args.scale : -INFINITY;
        const float new_max = fmaxf(max, block_max(score, scratch));
        weights[threadIdx.x] = expf(score - new_max);
        __syncthreads();

        const float correction = expf(max - new_max);
        const int count = (int)(seen - start < blockDim.x ? seen - start : blockDim.x);
        float chunk_sum = 0.0f;
        for (int j = 0; j < count; j++)
            chunk_sum += weights[j];
        sum = sum * correction + chunk_sum;
        for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
            float column = sums[i] * correction;
            for (int j = 0; j < count; j++)
                column += weights[j] * widened(v[(start + j) * d + i]);
            sums[i] = column;
        }
        __syncthreads(); // the next chunk writes the weights again
        max = new_max;
    }

    for (int64_t i = threadIdx.x; i < d; i += blockDim.x)
        args.out[row * d + i] = rounded(sums[i] / sum);
}
