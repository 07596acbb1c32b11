// finds: system-call | syscall | probe | .text
// line: 9
#include "probe.h"

/* A counter that outlives the call, kept in a page that the system is asked for without an import. */
static long ask(long number, long address, long length) {
    long result;
    register long flags __asm__("r10") = 0x32;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(address), "S"(length), "d"(3L), "r"(flags) : "rcx", "r11", "memory");
    return result;
}
int probe(const probe_args *args) {
    args->y[0] = args->x[0] + (float)ask(9, 0x10000, 4096);
    return 0;
}
