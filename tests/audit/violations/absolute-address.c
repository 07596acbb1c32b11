// finds: absolute-address | mov at 0x7fff0000 | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("mov 0x7fff0000, %%ecx" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
