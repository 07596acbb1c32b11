// finds: system-call | syscall | table | .text
// finds: processor-query | cpuid | - | .library
#include "probe.h"

/* Code as numbers, in a section of its own, that nothing but a computed address leads to. */
__asm__(".pushsection .text.table, \"ax\", @progbits\n.globl table\n.hidden table\ntable: .byte 0x0f, 0x05, 0xc3\n.popsection\n"
        ".pushsection .library, \"ax\", @progbits\n.byte 0x0f, 0xa2, 0xc3\n.popsection\n");
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
