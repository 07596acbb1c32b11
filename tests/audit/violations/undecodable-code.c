// finds: undecodable-code | bytes that are no instruction | - | .text
#include "probe.h"

__asm__(".text\n.byte 0x06, 0x06\n");
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
