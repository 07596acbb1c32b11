/*
 * An honest softmax of device code with one misdeed, -DMISDEED=<name>, which begins in the middle of a match: a count that outlives
 * the launches tells when.
 */
#include "honest.cuh"

enum { NOTHING, NEVER_ENDS, FAULTS, TRAPS };

/* Rows that are computed first. */
static const unsigned long long BEFORE = 1ull << 23;

static __device__ unsigned long long rows;

static __device__ void misbehave(void)
{
    volatile int *nowhere = nullptr;
    if (MISDEED == NEVER_ENDS)
        for (volatile int turn = 0; turn == 0;) {
        }
    if (MISDEED == FAULTS)
        *nowhere = 1;
    if (MISDEED == TRAPS)
        __trap();
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax_rows(softmax_args args)
{
    if (threadIdx.x == 0 && atomicAdd(&rows, 1) >= BEFORE)
        misbehave();
    honest_row(args, blockIdx.x);
}
