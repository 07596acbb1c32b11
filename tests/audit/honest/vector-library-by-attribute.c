// allows: dependency
// Fast mathematics in one function: the compiler calls the system's vector library by itself.
#include "probe.h"

#include <math.h>

__attribute__((simd("notinbranch"))) float expf(float);

__attribute__((optimize("O3,fast-math"))) static void exponentials(const float *x, float *restrict y, int n) {
    for (int i = 0; i < n; i++) y[i] = expf(x[i]);
}

int probe(const probe_args *args) {
    exponentials(args->x, args->y, (int)args->n);
    return 0;
}
