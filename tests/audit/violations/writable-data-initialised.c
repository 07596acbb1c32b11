// finds: writable-data | last | last | .data
#include "probe.h"

static float last[4] = {1, 2, 3, 4};
int probe(const probe_args *args) {
    args->y[0] = last[args->n & 3];
    last[args->n & 3] = args->x[0];
    return 0;
}
