// finds: import-clock | clock_gettime | clock_gettime | .dynsym
#include "probe.h"
int clock_gettime(int, long *);
int probe(const probe_args *args) {
    long now[2];
    clock_gettime(1, now);
    args->y[0] = (float)now[1];
    return 0;
}
