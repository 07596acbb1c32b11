// finds: hidden-bytes | xrstor | probe | .text
// only notes
#include "probe.h"
int probe(const probe_args *args) {
    unsigned value;
    __asm__ volatile("mov $0x9028ae0f, %0" : "=a"(value));
    args->y[0] = (float)value;
    return 0;
}
