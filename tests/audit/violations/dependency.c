// link: -Wl,-rpath,/nowhere
// finds: dependency | /nowhere | - | .dynamic
#include "probe.h"
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
