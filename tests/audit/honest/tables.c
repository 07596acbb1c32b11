#include "probe.h"

static const float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static const char *const names[3] = {"one", "two", "three"};
static float twice(float x) { return 2.0f * x; }
static float half(float x) { return 0.5f * x; }
static float (*const steps[2])(float) = {twice, half};
int probe(const probe_args *args) {
    for (int i = 0; i < args->n; i++) args->y[i] = steps[i & 1](args->x[i]) * table[i & 7] + names[i % 3][0];
    return 0;
}
