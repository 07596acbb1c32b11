// finds: random-number | rdrand | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("rdrand %0" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
