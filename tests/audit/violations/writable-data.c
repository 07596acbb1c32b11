// finds: writable-data | calls | calls | .bss
#include "probe.h"

static int calls;
int probe(const probe_args *args) {
    args->y[0] = (float)__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return 0;
}
