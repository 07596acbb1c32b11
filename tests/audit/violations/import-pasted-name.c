// finds: import-environment | getenv | getenv | .dynsym
#include "probe.h"

#define PASTE(a, b) a##b
char *PASTE(get, env)(const char *);
int probe(const probe_args *args) {
    args->y[0] = PASTE(get, env)("HOME") ? 1.0f : 0.0f;
    return 0;
}
