#include "probe.h"

int probe(const probe_args *args) {
    for (int i = 0; i < args->n; i++) {
        float x = args->x[i];
        switch ((int)x) {
        case 0: x = x * 3.0f; break;
        case 1: x = x / 7.0f; break;
        case 2: x = __builtin_sqrtf(x); break;
        case 3: x = x - 1.0f; break;
        case 4: x = __builtin_expf(x); break;
        case 5: x = __builtin_logf(x) + 2.0f; break;
        case 6: x = __builtin_sinf(x); break;
        case 7: x = __builtin_powf(x, 3.3f); break;
        case 8: return 3;
        default: __builtin_unreachable();
        }
        args->y[i] = x;
    }
    return 0;
}
