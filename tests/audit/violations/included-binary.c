// blob: 0f 05 c3
// finds: system-call | syscall | included | .text
#include "probe.h"

__asm__(".text\n.globl included\n.hidden included\nincluded: .incbin \"kernels/blob.bin\"\n");
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
