// finds: import-floating-point-mode | fesetround | fesetround | .dynsym
#include "probe.h"
int fesetround(int);
int probe(const probe_args *args) {
    args->y[0] = (float)fesetround(0x400);
    return 0;
}
