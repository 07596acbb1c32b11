// finds: text-relocation | code that is changed when loaded | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value;
    __asm__ volatile("movabs $probe, %0" : "=r"(value));
    args->y[0] = (float)value;
    return 0;
}
