// One value to another, by Thrust.
#include "common.cuh"
#include <thrust/device_ptr.h>
#include <thrust/transform.h>

struct Axpy {
    float a;
    __host__ __device__ float operator()(float x, float y) const { return x * a + y; }
};

int run_transform(const float *, float *out, Params p) {
    thrust::device_ptr<float> d(out);
    thrust::transform(d, d + p.n, d, d, Axpy{p.a});
    return cudaGetLastError();
}
