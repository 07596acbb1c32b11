// finds: import | signgam | signgam | .dynsym
// finds: import | __signgam | __signgam | .dynsym
#include "probe.h"
extern int signgam;
int probe(const probe_args *args) {
    args->y[0] = (float)signgam;
    return 0;
}
