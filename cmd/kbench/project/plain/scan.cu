// An inclusive sum of a block.
#include "common.cuh"

template <typename T, int N>
__global__ void scan_kernel(const T *in, T *out, Params p) {
    __shared__ T s[2][block];
    int i = blockIdx.x * block + threadIdx.x, from = 0;
    s[0][threadIdx.x] = in[i] + T(mix(N));
    for (int d = 1; d < block; d *= 2, from ^= 1) {
        __syncthreads();
        T v = s[from][threadIdx.x];
        s[from ^ 1][threadIdx.x] = threadIdx.x >= d ? v + s[from][threadIdx.x - d] : v;
    }
    __syncthreads();
    out[i] = s[from][threadIdx.x];
}

int run_scan(const float *in, float *out, Params p) {
    scan_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    scan_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    scan_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
