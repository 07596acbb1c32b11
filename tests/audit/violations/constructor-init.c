// finds: constructor | an initialisation function | _init | .text
// finds: interposition | _init | _init | .text
#include "probe.h"

/* The name that the linker calls without being asked. */
void _init(void) { __asm__ volatile(""); }
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
