// finds: import-environment | getenv | getenv | .dynsym
#include "probe.h"
char *getenv(const char *);
int probe(const probe_args *args) {
    args->y[0] = getenv("HOME") ? 1.0f : 0.0f;
    return 0;
}
