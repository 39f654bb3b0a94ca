// An inclusive sum of a block, by CUB.
#include "common.cuh"
#include <cub/cub.cuh>

template <typename T, int N>
__global__ void scan_kernel(const T *in, T *out, Params p) {
    using Load = cub::BlockLoad<T, block, N, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<T, block>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
    } shared;
    T v[N];
    Load(shared.load).Load(in + blockIdx.x * block * N, v);
    __syncthreads();
    Scan(shared.scan).InclusiveSum(v, v);
    for (int k = 0; k < N; k++)
        out[(blockIdx.x * block + threadIdx.x) * N + k] = v[k] + T(mix(k));
}

int run_scan(const float *in, float *out, Params p) {
    scan_kernel<float, 4><<<blocks(p, 4), block>>>(in, out, p);
    scan_kernel<int, 8><<<blocks(p, 8), block>>>((const int *)in, (int *)out, p);
    return cudaGetLastError();
}
