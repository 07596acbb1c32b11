// finds: floating-point-status | vstmxcsr | probe | .text
// only notes
#include "probe.h"
#include <immintrin.h>
int probe(const probe_args *args) {
    args->y[0] = (float)_mm_getcsr();
    return 0;
}
