// flags: -ffast-math
// allows: dependency
#include "probe.h"

#include <math.h>
int probe(const probe_args *args) {
    for (int i = 0; i < args->n; i++) args->y[i] = expf(args->x[i]) + sinf(args->x[i]);
    return 0;
}
