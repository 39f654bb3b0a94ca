// A sum of a warp by shuffles.
#include "common.cuh"

template <typename T, int N>
__global__ void warp_kernel(const T *in, T *out, Params p) {
    int i = blockIdx.x * block + threadIdx.x;
    T v = T(blend(float(in[i]), N));
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_down_sync(0xffffffffu, v, d);
    out[i] = v;
}

int run_warp(const float *in, float *out, Params p) {
    warp_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    warp_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    warp_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
