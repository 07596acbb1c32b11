// flags: -fcf-protection=full -O0
#include "probe.h"

int probe(const probe_args *args) {
    for (int i = 0; i < args->n; i++) args->y[i] = args->x[i] * 2.0f;
    return 0;
}
