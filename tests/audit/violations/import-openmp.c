// flags: -fopenmp
// link: -fopenmp
// finds: import-openmp | omp_get_thread_num | omp_get_thread_num | .dynsym
// finds: import-openmp | omp_get_num_threads | omp_get_num_threads | .dynsym
// finds: import-openmp | GOMP_parallel | GOMP_parallel | .dynsym
// finds: dependency | libgomp.so.1 | - | .dynamic
#include "probe.h"

int probe(const probe_args *args) {
#pragma omp parallel for
    for (int i = 0; i < args->n; i++) args->y[i] = args->x[i];
    return 0;
}
