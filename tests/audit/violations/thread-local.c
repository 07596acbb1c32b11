// finds: thread-local | calls | calls | .tbss
// finds: thread-local | __tls_get_addr | __tls_get_addr | .dynsym
#include "probe.h"

static __thread int calls;
int probe(const probe_args *args) {
    args->y[0] = (float)++calls;
    return 0;
}
