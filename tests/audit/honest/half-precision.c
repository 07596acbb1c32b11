#include "probe.h"

/* Conversions that the compiler's library makes, which look at the floating-point mode. */
int probe(const probe_args *args) {
    for (int i = 0; i < args->n; i++) {
        volatile double wide = args->x[i];
        volatile _Float16 narrow = (_Float16)wide;
        volatile __float128 widest = wide;
        args->y[i] = (float)narrow + (float)(widest * widest);
    }
    return 0;
}
