// finds: import | qsort | qsort | .dynsym
#include "probe.h"
void qsort(void *, unsigned long, unsigned long, int (*)(const void *, const void *));
int probe(const probe_args *args) {
    qsort(args->y, args->n, 4, 0);
    return 0;
}
