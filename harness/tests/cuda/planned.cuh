// Kernels of the backends' conformance suite that ask more of a launch plan than a grid: all blocks at once, and a tensor
// map. Both compute y = factor * x.

#include <cooperative_groups.h>
#include <cuda.h>
#include <stdint.h>

// The second half needs what all blocks wrote in the first: without a cooperative launch the wait stops the kernel.
extern "C" __global__ void scale_together(const float *x, float *turned, float *y, int64_t n, float factor)
{
    const int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, step = gridDim.x * (int64_t)blockDim.x;
    for (int64_t i = first; i < n; i += step)
        turned[n - 1 - i] = x[i];
    cooperative_groups::this_grid().sync();
    for (int64_t i = first; i < n; i += step)
        y[i] = factor * turned[n - 1 - i];
}

// A block is given eight rows of forty as one tile.
extern "C" __global__ void scale_tiles(const __grid_constant__ CUtensorMap x_tiles, float *y, int64_t n, float factor)
{
    constexpr int ROWS = 8, COLS = 40;
    __shared__ alignas(128) float tile[ROWS * COLS];
    __shared__ alignas(8) uint64_t arrived;
    const uint32_t barrier = (uint32_t)__cvta_generic_to_shared(&arrived);
    const int row = blockIdx.x * ROWS;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"((uint32_t)sizeof tile)
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"((uint32_t)__cvta_generic_to_shared(tile)), "l"(&x_tiles), "r"(0), "r"(row), "r"(barrier)
                     : "memory");
    }
    __syncthreads();
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
    for (int i = threadIdx.x; i < ROWS * COLS; i += blockDim.x)
        if ((int64_t)row * COLS + i < n)
            y[(int64_t)row * COLS + i] = factor * tile[i];
}
