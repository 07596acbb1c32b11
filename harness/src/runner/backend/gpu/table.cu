// What the judge does to memory on the device, so that no batch waits for the bus: it deals contents, looks at results,
// and knows what no kernel wrote. The same rules as on the host (judge/deal.rs, compare.rs, blueprint.rs), in the same
// arithmetic. HIP compiles it at run time; for CUDA, `table.ptx` is made from this file and checked in beside it:
//
//     cargo test -p kopt-harness --features runner renew_the_ptx -- --ignored

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { F32 = 0, BF16 = 1, F16 = 2, I32 = 3 };
enum { AXES = 6 };

// Axes of a buffer, outermost first, and how far each is turned.
struct Turned {
    u32 rank;
    u32 extent[AXES];
    u32 turn[AXES];
};

static __device__ u64 first(void)
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ u64 step(void)
{
    return (u64)gridDim.x * blockDim.x;
}

// Where the element that goes to `index` stands in the base.
static __device__ u32 source(const Turned &turned, u32 index)
{
    u32 from = 0, stride = 1;
    for (int axis = (int)turned.rank - 1; axis >= 0; axis--) {
        const u32 extent = turned.extent[axis];
        const u32 outer = index / extent;
        u32 at = index - outer * extent + turned.turn[axis];
        if (at >= extent)
            at -= extent;
        from += at * stride;
        stride *= extent;
        index = outer;
    }
    return from;
}

#ifdef __CUDACC__
static __device__ float half_to_float(u16 bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ u16 float_to_half(float value)
{
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
static __device__ float half_to_float(u16 bits)
{
    return (float)__builtin_bit_cast(_Float16, bits);
}

static __device__ u16 float_to_half(float value)
{
    return __builtin_bit_cast(u16, (_Float16)value);
}
#endif

static __device__ float bf16_to_float(u16 bits)
{
    return __uint_as_float((u32)bits << 16);
}

// Writes a base under a symmetry. Factors are powers of two: every product is exact, and a bf16 is the upper half of one.
extern "C" __global__ void deal(u8 *to, const u8 *from, u32 len, Turned turned, u32 dtype, u32 scaled, float factor)
{
    for (u64 index = first(); index < len; index += step()) {
        const u32 at = source(turned, (u32)index);
        if (dtype == F32 || dtype == I32) {
            u32 bits = ((const u32 *)from)[at];
            if (scaled && dtype == F32)
                bits = __float_as_uint(__uint_as_float(bits) * factor);
            ((u32 *)to)[index] = bits;
        } else {
            u16 bits = ((const u16 *)from)[at];
            if (scaled && dtype == BF16)
                bits = (u16)(__float_as_uint(bf16_to_float(bits) * factor) >> 16);
            if (scaled && dtype == F16)
                bits = float_to_half(half_to_float(bits) * factor);
            ((u16 *)to)[index] = bits;
        }
    }
}

static __device__ bool is_right(double value, double bound, double got, double largest)
{
    if (isnan(value))
        return isnan(got);
    if (isinf(value) || fabs(value) > largest) {
        const bool same = isinf(got) && (got > 0) == (value > 0);
        return same || (!isinf(value) && fabs(got - value) <= bound);
    }
    if (isinf(got))
        return (got > 0) == (signbit(value) == 0) && fabs(value) + bound > largest;
    return fabs(got - value) <= bound;
}

// Whether every element is within its bound and none is as it was; else the flag is raised.
extern "C" __global__ void check(const u8 *got, const u8 *image, const double *values, const double *bounds, u32 len,
                                 Turned turned, u32 dtype, double factor, double largest, u32 *flag)
{
    bool right = true;
    for (u64 index = first(); index < len; index += step()) {
        const u32 at = source(turned, (u32)index);
        u32 bits, poison;
        double number;
        if (dtype == F32 || dtype == I32) {
            bits = ((const u32 *)got)[index];
            poison = ((const u32 *)image)[index];
            number = dtype == F32 ? (double)__uint_as_float(bits) : (double)(int)bits;
        } else {
            bits = ((const u16 *)got)[index];
            poison = ((const u16 *)image)[index];
            number = dtype == BF16 ? bf16_to_float((u16)bits) : half_to_float((u16)bits);
        }
        right &= bits != poison && is_right(values[at] * factor, bounds[at] * fabs(factor), number, largest);
    }
    if (!right)
        *flag = 1;
}

// Whether two ranges are the same; else the flag is raised. Both start at a multiple of 16 bytes.
extern "C" __global__ void same(const u8 *now, const u8 *then, u64 bytes, u32 *flag)
{
    bool equal = true;
    const u64 wide = bytes / 16;
    for (u64 index = first(); index < wide; index += step()) {
        const uint4 a = ((const uint4 *)now)[index], b = ((const uint4 *)then)[index];
        equal &= a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
    }
    for (u64 index = 16 * wide + first(); index < bytes; index += step())
        equal &= now[index] == then[index];
    if (!equal)
        *flag = 1;
}

// SplitMix64's finisher: every index gets bits of its own.
static __device__ u64 mix(u64 noise, u64 index)
{
    u64 z = noise + index * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// What lies outside of outputs.
extern "C" __global__ void pattern(u64 *to, u64 words, u64 noise)
{
    for (u64 index = first(); index < words; index += step())
        to[index] = mix(noise, index);
}

static __device__ u32 at_least_one(u32 payload)
{
    return payload ? payload : 1;
}

// What an output holds before a call.
extern "C" __global__ void poison(u8 *to, u32 len, u32 dtype, u64 noise, u64 turn)
{
    for (u64 index = first(); index < len; index += step()) {
        const u64 random = mix(~noise, index);
        const u32 kind = (u32)((mix(0, index) % 3 + turn) % 3);
        const u32 sign = (u32)(random >> 63), payload = (u32)(random & 0x003fffff);
        u32 bits;
        if (dtype == F32)
            bits = kind == 0 ? sign << 31 | 0x7fc00000 | at_least_one(payload)
                             : (kind == 1 ? 0x70800000 : 0xf0800000) | payload;
        else if (dtype == BF16)
            bits = kind == 0 ? sign << 15 | 0x7fc0 | at_least_one(payload & 0x3f)
                             : (kind == 1 ? 0x7080 : 0xf080) | (payload & 0x7f);
        else if (dtype == F16)
            bits = kind == 0 ? sign << 15 | 0x7e00 | at_least_one(payload & 0x1ff)
                             : (kind == 1 ? 0x7800 : 0xf800) | (payload & 0x3ff);
        else
            bits = kind == 0 ? (u32)random | 0x40000000 : (kind == 1 ? 0x7f000000 : 0x80000000) | payload;
        if (dtype == F32 || dtype == I32)
            ((u32 *)to)[index] = bits;
        else
            ((u16 *)to)[index] = (u16)bits;
    }
}
