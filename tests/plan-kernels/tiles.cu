// Row softmax of tiles that a tensor map loads, eight rows a block and one a warp; and a plain kernel for rows that have no
// such map.
#include "softmax.h"

#include <cuda.h>
#include <math.h>

constexpr int ROWS = 8, COLS = 32, TILE = ROWS * COLS * 4;

template <bool Maximum>
static __device__ float of_warp(float value)
{
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, value, step);
        value = Maximum ? fmaxf(value, other) : value + other;
    }
    return value;
}

// A row by a warp; `element` gives its elements.
template <class Element>
static __device__ void softmax_row(Element element, float *out, int64_t cols)
{
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < cols; i += 32)
        largest = fmaxf(largest, element(i));
    largest = of_warp<true>(largest);
    for (int64_t i = threadIdx.x; i < cols; i += 32)
        sum += expf(element(i) - largest);
    sum = of_warp<false>(sum);
    for (int64_t i = threadIdx.x; i < cols; i += 32)
        out[i] = expf(element(i) - largest) / sum;
}

extern "C" __global__ void softmax_rows(softmax_args args)
{
    const float *row = args.x + blockIdx.x * args.cols;
    softmax_row([=](int64_t i) { return row[i]; }, args.y + blockIdx.x * args.cols, args.cols);
}

extern "C" __global__ void softmax_tiles(const __grid_constant__ CUtensorMap x_tiles, float *y, int64_t rows, int64_t cols)
{
    extern __shared__ unsigned char memory[];
    __shared__ alignas(8) uint64_t arrived;
    const uint32_t barrier = (uint32_t)__cvta_generic_to_shared(&arrived);
    // The permutation counts from multiples of its eight rows of 128 bytes.
    const uint32_t given = (uint32_t)__cvta_generic_to_shared(memory), aligned = (given + 1023) / 1024 * 1024;
    const unsigned char *tiles = memory + (aligned - given);
    const int first = blockIdx.x * ROWS;
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        const uint32_t count = (uint32_t)((cols + COLS - 1) / COLS);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        // What lies outside of the matrix arrives too, as zeros.
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count * TILE)
                     : "memory");
        for (uint32_t tile = 0; tile < count; tile++)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                         " [%0], [%1, {%2, %3}], [%4];" ::"r"(aligned + tile * TILE),
                         "l"(&x_tiles), "r"(tile * COLS), "r"(first), "r"(barrier)
                         : "memory");
    }
    __syncthreads();
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    const int64_t row = first + threadIdx.y;
    if (row >= rows)
        return;
    // 16-byte pieces of a tile's row are permuted by the row's number.
    const auto element = [=](int64_t i) {
        const int64_t piece = i % COLS / 4 ^ threadIdx.y;
        return *(const float *)(tiles + i / COLS * TILE + threadIdx.y * 128 + piece * 16 + i % 4 * 4);
    };
    softmax_row(element, y + row * cols, cols);
}
