// flags: -fstack-protector-all
// allows: segment-register
#include "probe.h"

int probe(const probe_args *args) {
    volatile float row[64];
    for (int i = 0; i < 64; i++) row[i] = args->x[i % args->n];
    args->y[0] = row[args->n & 63];
    return 0;
}
