// finds: import-process | exit | exit | .dynsym
#include "probe.h"
void exit(int);
int probe(const probe_args *args) {
    if (args->n > 3) exit(0);
    args->y[0] = 0.0f;
    return 0;
}
