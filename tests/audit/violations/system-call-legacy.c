// finds: system-call | int | probe | .text
#include "probe.h"
int probe(const probe_args *args) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(13), "b"(0));
    args->y[0] = (float)result;
    return 0;
}
