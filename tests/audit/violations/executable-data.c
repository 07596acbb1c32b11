// finds: writable-data | both | both | .both
// finds: executable-data | memory that is written and run | both | .both
#include "probe.h"

__asm__(".pushsection .both, \"awx\", @progbits\n.type both, @function\nboth: ret\n.size both, 1\n.popsection\n");
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
