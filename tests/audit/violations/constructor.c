// finds: constructor | an entry of the initialisation array | before | .text
// finds: writable-data | sum | sum | .bss
#include "probe.h"

static float sum;
__attribute__((constructor)) static void before(void) { sum = 2.0f; }
int probe(const probe_args *args) {
    args->y[0] = sum;
    return 0;
}
