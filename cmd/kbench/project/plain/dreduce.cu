// A maximum over a grid.
#include "common.cuh"

template <typename T, int N>
__global__ void dreduce_kernel(const T *in, T *out, Params p) {
    T v = in[threadIdx.x];
    for (int i = blockIdx.x * block + threadIdx.x; i < p.n; i += gridDim.x * block) {
        T w = T(blend(float(in[i]), N));
        v = w > v ? w : v;
    }
    out[blockIdx.x * block + threadIdx.x] = v;
}

int run_dreduce(const float *in, float *out, Params p) {
    dreduce_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    dreduce_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    dreduce_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
