// finds: constructor | an entry of the termination array | after | .text
#include "probe.h"

__attribute__((destructor)) static void after(void) { __asm__ volatile(""); }
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
