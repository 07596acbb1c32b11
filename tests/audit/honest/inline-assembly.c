#include "probe.h"

int probe(const probe_args *args) {
    float x = args->x[0];
    __asm__("addss %0, %0" : "+x"(x));
    if (args->n < 0) __builtin_trap();
    args->y[0] = x;
    return 0;
}
