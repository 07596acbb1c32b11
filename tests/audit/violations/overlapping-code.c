// finds: system-call | syscall | probe | .text
// finds: overlapping-code | an instruction inside another one | probe | .text
#include "probe.h"

/* The reader sees a comparison and an addition; the jump runs the system call between them. */
int probe(const probe_args *args) {
    long result = 39;
    __asm__ volatile("jmp 1f + 1\n"
                     "1: .byte 0x3c, 0x0f, 0x05\n"
                     : "+a"(result) : : "rcx", "r11", "memory");
    args->y[0] = (float)result;
    return 0;
}
