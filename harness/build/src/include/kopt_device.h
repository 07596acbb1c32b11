#line 2 "kopt_device.h" /* whatever folder it lies in: no source sees that by __FILE__ */
/*
 * One source for CUDA and HIP: what the two spell differently. nvcc and hipcc find it on their own; a source includes it as
 * "kopt_device.h".
 */
#ifndef KOPT_DEVICE_H
#define KOPT_DEVICE_H

#if defined(__HIP__) || defined(__HIPCC__)
#define KOPT_HIP 1
#include <hip/hip_runtime.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#else
#define KOPT_CUDA 1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

/* Where a launcher (class `launcher`) is to launch. */
#if defined(KOPT_CUDA)
typedef cudaStream_t kopt_stream;
#else
typedef hipStream_t kopt_stream;
#endif

/* Threads that run together. 64 on AMD's data-centre devices. */
#if defined(KOPT_CUDA)
#define KOPT_WARP 32
#elif defined(__AMDGCN_WAVEFRONT_SIZE)
#define KOPT_WARP __AMDGCN_WAVEFRONT_SIZE
#elif defined(__GFX9__) || !defined(__HIP_DEVICE_COMPILE__)
#define KOPT_WARP 64
#else
#define KOPT_WARP 32
#endif

/* The most threads of a block, and the most warps. */
#define KOPT_MOST_THREADS 1024
#define KOPT_MOST_WARPS (KOPT_MOST_THREADS / KOPT_WARP)

/*
 * KOPT_BOUNDS(threads, blocks) before a kernel's name: it is launched with at most so many threads a block, and so many blocks
 * should fit on a multiprocessor. HIP wants the second as waves a SIMD, of which a compute unit has four.
 */
#if defined(KOPT_CUDA)
#define KOPT_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define KOPT_BOUNDS(threads, blocks) \
    __launch_bounds__(threads, (((threads) + KOPT_WARP - 1) / KOPT_WARP * (blocks) + 3) / 4)
#endif

/* Sets of lanes. On AMD's devices all lanes of a wave take part in a shuffle: there the set is not looked at. */
#if defined(KOPT_CUDA)
typedef unsigned int kopt_lanes;
#else
typedef unsigned long long kopt_lanes;
#endif
#define KOPT_ALL_LANES (~(kopt_lanes)0)

static __device__ inline int kopt_lane(void)
{
    return (int)(threadIdx.x % KOPT_WARP);
}

/* The value of another lane of the same group of `width` lanes, a power of two. */
template <typename T>
static __device__ inline T kopt_shuffle(kopt_lanes lanes, T value, int lane, int width = KOPT_WARP)
{
#if defined(KOPT_CUDA)
    return __shfl_sync(lanes, value, lane, width);
#else
    (void)lanes;
    return __shfl(value, lane, width);
#endif
}

template <typename T>
static __device__ inline T kopt_shuffle_down(kopt_lanes lanes, T value, unsigned by, int width = KOPT_WARP)
{
#if defined(KOPT_CUDA)
    return __shfl_down_sync(lanes, value, by, width);
#else
    (void)lanes;
    return __shfl_down(value, by, width);
#endif
}

template <typename T>
static __device__ inline T kopt_shuffle_up(kopt_lanes lanes, T value, unsigned by, int width = KOPT_WARP)
{
#if defined(KOPT_CUDA)
    return __shfl_up_sync(lanes, value, by, width);
#else
    (void)lanes;
    return __shfl_up(value, by, width);
#endif
}

template <typename T>
static __device__ inline T kopt_shuffle_xor(kopt_lanes lanes, T value, int mask, int width = KOPT_WARP)
{
#if defined(KOPT_CUDA)
    return __shfl_xor_sync(lanes, value, mask, width);
#else
    (void)lanes;
    return __shfl_xor(value, mask, width);
#endif
}

/* The lanes for which `condition` holds. */
static __device__ inline kopt_lanes kopt_ballot(kopt_lanes lanes, int condition)
{
#if defined(KOPT_CUDA)
    return __ballot_sync(lanes, condition);
#else
    (void)lanes;
    return __ballot(condition);
#endif
}

/* Half precision. Conversions to it round to nearest, ties to even. */
#if defined(KOPT_CUDA)
typedef __nv_bfloat16 kopt_bf16;
#else
typedef hip_bfloat16 kopt_bf16;
#endif
typedef __half kopt_f16;

static __device__ inline float kopt_float(float value)
{
    return value;
}

static __device__ inline float kopt_float(kopt_f16 value)
{
    return __half2float(value);
}

static __device__ inline float kopt_float(kopt_bf16 value)
{
#if defined(KOPT_CUDA)
    return __bfloat162float(value);
#else
    return static_cast<float>(value);
#endif
}

template <typename T> static __device__ inline T kopt_from_float(float value);

template <> __device__ inline float kopt_from_float<float>(float value)
{
    return value;
}

template <> __device__ inline kopt_f16 kopt_from_float<kopt_f16>(float value)
{
    return __float2half_rn(value);
}

template <> __device__ inline kopt_bf16 kopt_from_float<kopt_bf16>(float value)
{
#if defined(KOPT_CUDA)
    return __float2bfloat16_rn(value);
#else
    return kopt_bf16(value);
#endif
}

/* A store of what is not read again soon. */
template <typename T> static __device__ inline void kopt_store_streaming(T *to, T value)
{
#if defined(KOPT_CUDA)
    __stcs(to, value);
#else
    __builtin_nontemporal_store(value, to);
#endif
}

#endif
