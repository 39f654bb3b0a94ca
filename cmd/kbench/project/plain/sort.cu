// A bitonic sort of a block.
#include "common.cuh"

template <typename T, int N>
__global__ void sort_kernel(const T *in, T *out, Params p) {
    __shared__ T s[block];
    int i = blockIdx.x * block + threadIdx.x, t = threadIdx.x;
    s[t] = in[i] * T(N);
    for (int k = 2; k <= block; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int o = t ^ j;
            if (o > t && (s[t] > s[o]) == ((t & k) == 0)) {
                T v = s[t];
                s[t] = s[o];
                s[o] = v;
            }
        }
    __syncthreads();
    out[i] = s[t] + T(mix(t));
}

int run_sort(const float *in, float *out, Params p) {
    sort_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    sort_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    sort_kernel<double, 2><<<blocks(p, 2), block>>>((const double *)in, (double *)out, p);
    return cudaGetLastError();
}
