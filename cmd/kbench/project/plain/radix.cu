// A split of a block by one bit, N times.
#include "common.cuh"

template <typename T, int N>
__global__ void radix_kernel(const T *in, T *out, Params p) {
    int i = blockIdx.x * block + threadIdx.x;
    T v = in[i];
    for (int bit = 0; bit < N; bit++) {
        bool one = (mix(int(v)) >> bit) & 1;
        int ones = __syncthreads_count(one);
        v += one ? T(ones) : T(block - ones);
    }
    out[i] = v;
}

int run_radix(const float *in, float *out, Params p) {
    radix_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    radix_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    radix_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
