// finds: import-file | fopen | fopen | .dynsym
#include "probe.h"
void *fopen(const char *, const char *);
int probe(const probe_args *args) {
    args->y[0] = fopen("answer", "r") ? 1.0f : 0.0f;
    return 0;
}
