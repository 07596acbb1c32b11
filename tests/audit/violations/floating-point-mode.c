// finds: floating-point-mode | vldmxcsr | probe | .text
// finds: floating-point-status | vstmxcsr | probe | .text
#include "probe.h"
#include <immintrin.h>
int probe(const probe_args *args) {
    _mm_setcsr(_mm_getcsr() | 0x8040);
    args->y[0] = args->x[0];
    return 0;
}
