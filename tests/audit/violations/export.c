// finds: export | helper | helper | .text
// only notes
#include "probe.h"

float helper(float x) { return x + 1.0f; }
int probe(const probe_args *args) {
    args->y[0] = helper(args->x[0]);
    return 0;
}
