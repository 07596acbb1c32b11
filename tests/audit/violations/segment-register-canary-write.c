// finds: segment-register | mov through fs | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned long value = 0;
    __asm__ volatile("mov %0, %%fs:0x28" : "+a"(value) : : "rcx", "rdx", "rbx", "memory");
    args->y[0] = (float)value;
    return 0;
}
