// finds: writable-data | completed.0 | completed.0 | .bss
#include "probe.h"

/* The name of a variable that start files bring. */
static int completed __asm__("completed.0");
int probe(const probe_args *args) {
    args->y[0] = (float)__atomic_add_fetch(&completed, 1, __ATOMIC_RELAXED);
    return 0;
}
