// How many products a second the matrix units of compute capability 9.0 can make at most: groups of four warps multiply
// zeros, which cost the least power, out of registers and shared memory, and wait for nothing else. The driver compiles
// `matrix.ptx`, which is made from this file and checked in beside it:
//
//     cargo test -p kopt-harness --features runner renew_the_ptx -- --ignored

// As `ceilings.rs` counts them.
enum { THREADS = 256, UNROLLED = 16 };

// d (64 x 128) += a (64 x 16) b (16 x 128), by four warps.
static __device__ void multiply_zeros(float (&d)[64], unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %64, %64, %64}, %65, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                   "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                   "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                   "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(0), "l"(b));
}

// Sixteen of each group for every one of `rounds`.
extern "C" __global__ void __launch_bounds__(THREADS) multiply(float *sink, unsigned rounds)
{
    __shared__ __align__(1024) unsigned tile[16 * 128 / 2];
    for (unsigned i = threadIdx.x; i < sizeof(tile) / sizeof(*tile); i += THREADS)
        tile[i] = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    // Its address, and how far eight rows and eight columns are from the next ones, in units of 16 bytes.
    const unsigned long long at = __cvta_generic_to_shared(tile);
    const unsigned long long b = (at & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
    float d[64] = {};
    for (float &value : d)
        asm volatile("" : "+f"(value)::"memory");
    for (unsigned round = 0; round < rounds; round++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < UNROLLED; i++)
            multiply_zeros(d, b);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    // Never so, and the compiler cannot know.
    float sum = 0;
    for (float value : d)
        sum += value;
    if (sum != 0)
        *sink = sum;
}
