#include "probe.h"

#include <math.h>
#include <string.h>
#include <assert.h>
int probe(const probe_args *args) {
    assert(args->n >= 0);
    float row[256];
    memset(row, 0, sizeof row);
    memcpy(row, args->x, sizeof(float) * (args->n < 256 ? args->n : 256));
    for (int i = 0; i < args->n && i < 256; i++) {
        double s, c;
        s = sin(row[i]);
        c = cos(row[i]);
        args->y[i] = expf(row[i]) + tanhf(row[i]) + (float)(s + c) + erff(row[i]) + fmaxf(row[i], 0.0f) + (float)lgamma(row[i]);
    }
    memmove(args->y + 1, args->y, 4);
    return memcmp(args->x, args->y, 4) == 77;
}
