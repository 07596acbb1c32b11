// finds: writable-data | .notes | - | .notes
#include "probe.h"

/* Memory without a name, in a section of its own. */
__asm__(".pushsection .notes, \"aw\", @progbits\n.zero 64\n.popsection\n");
int probe(const probe_args *args) {
    args->y[0] = args->x[0];
    return 0;
}
