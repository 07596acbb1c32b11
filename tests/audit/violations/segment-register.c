// finds: segment-register | mov through fs | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("mov %%fs:0, %0" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
