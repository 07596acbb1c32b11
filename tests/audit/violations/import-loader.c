// finds: import-loader | dlsym | dlsym | .dynsym
#include "probe.h"
void *dlsym(void *, const char *);
int probe(const probe_args *args) {
    args->y[0] = dlsym(0, "time") ? 1.0f : 0.0f;
    return 0;
}
