#include "probe.h"

/* Names of its own, hidden or static, are nobody else's concern; a fence looks like a restore of saved state. */
__attribute__((visibility("hidden"), noinline)) float half(float x) { return 0.5f * x; }
static __attribute__((noinline)) float bcopy_like(float x) { return x + 1.0f; }
int probe(const probe_args *args) {
    args->y[0] = bcopy_like(half(args->x[0]));
    __asm__ volatile("lfence" ::: "memory");
    return 0;
}
