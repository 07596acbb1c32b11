// finds: saved-state | fxsave | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("sub $1024, %%rsp\n\tand $-64, %%rsp\n\tfxsave (%%rsp)" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
