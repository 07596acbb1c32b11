// finds: ifunc | chosen | - | .text
// finds: ifunc | a function that is resolved when loaded | - | .text
#include "probe.h"

static float plain(float x) { return x + 1.0f; }
static float (*choose(void))(float) { return plain; }
static float chosen(float) __attribute__((ifunc("choose")));
int probe(const probe_args *args) {
    args->y[0] = chosen(args->x[0]);
    return 0;
}
