// A sort, by Thrust.
#include "common.cuh"
#include <thrust/device_ptr.h>
#include <thrust/sort.h>

int run_sort(const float *, float *out, Params p) {
    thrust::device_ptr<float> d(out);
    thrust::sort(d, d + p.n);
    return cudaGetLastError();
}
