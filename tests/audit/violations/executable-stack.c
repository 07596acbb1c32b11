// finds: executable-data | a stack that is run | - | .note.GNU-stack
#include "probe.h"

__attribute__((noinline)) static float apply(float (*f)(float), float x) { __asm__ volatile("" : "+r"(f)); return f(x); }
int probe(const probe_args *args) {
    float offset = args->x[1];
    float add(float x) { return x + offset; }
    args->y[0] = apply(add, args->x[0]);
    return 0;
}
