// finds: interposition | __sfp_handle_exceptions | __sfp_handle_exceptions | .symtab of an object file
// finds: floating-point-mode | ldmxcsr | __sfp_handle_exceptions | .text
#include "probe.h"

/* The name of a function of the compiler's library: it is the candidate's own all the same. */
__attribute__((noinline, visibility("hidden"))) void __sfp_handle_exceptions(void) {
    unsigned mode = 0x9fc0;
    __asm__ volatile("ldmxcsr %0" : : "m"(mode));
}
int probe(const probe_args *args) {
    __sfp_handle_exceptions();
    args->y[0] = args->x[0];
    return 0;
}
