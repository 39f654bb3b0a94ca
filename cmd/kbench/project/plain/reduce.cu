// A sum of a block, N values a thread.
#include "common.cuh"

template <typename T, int N>
__global__ void reduce_kernel(const T *in, T *out, Params p) {
    __shared__ T s[block];
    T v = 0;
    for (int k = 0; k < N; k++)
        v += T(blend(float(in[(blockIdx.x * N + k) * block + threadIdx.x]), k));
    s[threadIdx.x] = v;
    for (int d = block / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d)
            s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = s[0];
}

int run_reduce(const float *in, float *out, Params p) {
    reduce_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    reduce_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    reduce_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
