// finds: processor-query | cpuid | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("cpuid" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
