#include "probe.h"

int probe(const probe_args *args) {
    __int128 a = (__int128)args->n * 1234567890123456789LL;
    args->y[0] = (float)(a / (args->n + 3)) + (float)__builtin_popcountll((unsigned long long)args->n);
    return 0;
}
