// finds: clock-read | rdtsc | probe | .text
// finds: overlapping-code | - | probe | .text
#include "probe.h"

/* Both ways are taken: once as data of a move, once as a clock read. */
int probe(const probe_args *args) {
    unsigned low = 0;
    __asm__ volatile("test %%ecx, %%ecx\n"
                     "jz 1f + 1\n"
                     "1: .byte 0xb8, 0x0f, 0x31, 0x90, 0x90\n"
                     : "=a"(low) : "c"(args->n) : "rdx");
    args->y[0] = (float)low;
    return 0;
}
