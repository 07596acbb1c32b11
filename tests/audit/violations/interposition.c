// flags: -fno-builtin
// finds: interposition | memcmp | memcmp | .text
// finds: interposition | clock_gettime | clock_gettime | .text
// finds: interposition | expf | expf | .text
// finds: interposition | cudaLaunchKernel | cudaLaunchKernel | .text
#include "probe.h"

int memcmp(const void *a, const void *b, unsigned long n) { (void)a; (void)b; (void)n; return 0; }
int clock_gettime(int clock, void *time) { (void)clock; (void)time; return 0; }
float expf(float x) { return x; }
int cudaLaunchKernel(void) { return 0; }
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
