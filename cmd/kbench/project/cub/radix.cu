// A radix sort of a block, by CUB.
#include "common.cuh"
#include <cub/block/block_radix_sort.cuh>

template <typename K, int N>
__global__ void radix_kernel(K *keys, Params p) {
    using Sort = cub::BlockRadixSort<K, block, N>;
    __shared__ typename Sort::TempStorage shared;
    K v[N];
    for (int k = 0; k < N; k++)
        v[k] = keys[(blockIdx.x * block + threadIdx.x) * N + k] + K(mix(k));
    Sort(shared).Sort(v);
    for (int k = 0; k < N; k++)
        keys[(blockIdx.x * block + threadIdx.x) * N + k] = v[k];
}

int run_radix(const float *, float *out, Params p) {
    radix_kernel<unsigned, 4><<<blocks(p, 4), block>>>((unsigned *)out, p);
    radix_kernel<float, 8><<<blocks(p, 8), block>>>(out, p);
    return cudaGetLastError();
}
