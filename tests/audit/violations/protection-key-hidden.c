// finds: protection-key | wrpkru inside another instruction | probe | .text
// finds: protection-key | rdpkru inside another instruction | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    unsigned value, other;
    __asm__ volatile("mov $0x90ef010f, %0" : "=a"(value));
    __asm__ volatile("mov $0x90ee010f, %0" : "=a"(other));
    args->y[0] = (float)(value + other);
    return 0;
}
