// The judge's kernels, compiled for the host from their one source and called as the stand-in for HIP's runtime calls
// kernels: every thread of every block in turn.

#include <cmath>
#include <cstring>
#include <utility>

using std::fabs, std::isinf, std::isnan, std::signbit;

#define __device__
#define __global__

struct uint4 {
    unsigned x, y, z, w;
};

struct Place {
    unsigned x, y, z;
};
static thread_local Place blockIdx, threadIdx, blockDim, gridDim;

static float __uint_as_float(unsigned bits)
{
    return __builtin_bit_cast(float, bits);
}

static unsigned __float_as_uint(float value)
{
    return __builtin_bit_cast(unsigned, value);
}

#define deal deal_body
#define check check_body
#define same same_body
#define pattern pattern_body
#define poison poison_body
#include "table.cu"
#undef deal
#undef check
#undef same
#undef pattern
#undef poison

template <typename... Types, std::size_t... Numbers>
static void run(void (*body)(Types...), void **parameters, const unsigned *grid, const unsigned *block,
                std::index_sequence<Numbers...>)
{
    gridDim = {grid[0], 1, 1};
    blockDim = {block[0], 1, 1};
    for (blockIdx = {0, 0, 0}; blockIdx.x < grid[0]; blockIdx.x++)
        for (threadIdx = {0, 0, 0}; threadIdx.x < block[0]; threadIdx.x++)
            body(*(Types *)parameters[Numbers]...);
}

template <typename... Types>
static void run(void (*body)(Types...), void **parameters, const unsigned *grid, const unsigned *block)
{
    run(body, parameters, grid, block, std::index_sequence_for<Types...>());
}

#define KERNEL(name)                                                                                                   \
    extern "C" void name(void **parameters, const unsigned *grid, const unsigned *block)                               \
    {                                                                                                                  \
        run(name##_body, parameters, grid, block);                                                                     \
    }

KERNEL(deal)
KERNEL(check)
KERNEL(same)
KERNEL(pattern)
KERNEL(poison)
