// A weighted sum of 2N+1 neighbours.
#include "common.cuh"

template <typename T, int N>
__global__ void stencil_kernel(const T *in, T *out, Params p) {
    int i = blockIdx.x * block + threadIdx.x;
    const float c[5] = {1, 2, 3, 4, 5};
    T v = 0;
#pragma unroll
    for (int k = -N; k <= N; k++)
        v += in[clamped(i + k, 0, p.n - 1)] * T(k + 1);
    out[i] = T(polynomial(c, blend(float(v), N)));
}

int run_stencil(const float *in, float *out, Params p) {
    stencil_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    stencil_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    stencil_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
