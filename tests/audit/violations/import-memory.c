// finds: import-memory | malloc | malloc | .dynsym
#include "probe.h"
void *malloc(unsigned long);
int probe(const probe_args *args) {
    args->y[0] = *(volatile float *)malloc(4);
    return 0;
}
