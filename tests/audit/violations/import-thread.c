// finds: import-thread | pthread_create | pthread_create | .dynsym
#include "probe.h"
int pthread_create(void *, void *, void *(*)(void *), void *);
int probe(const probe_args *args) {
    args->y[0] = (float)pthread_create(0, 0, 0, 0);
    return 0;
}
