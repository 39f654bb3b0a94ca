// One value to another, N a thread.
#include "common.cuh"

template <typename T, int N>
__global__ void transform_kernel(const T *in, T *out, Params p) {
    for (int k = 0; k < N; k++) {
        int i = (blockIdx.x * N + k) * block + threadIdx.x;
        if (i < p.n)
            out[i] = in[i] * T(p.a) + T(blend(p.b, k));
    }
}

int run_transform(const float *in, float *out, Params p) {
    transform_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    transform_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    transform_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
