// A tiled product, for several tile sizes.
#include "common.cuh"
#include <cstdio>

template <int TM, int TN, int TK>
__global__ void gemm_kernel(const float *a, const float *b, float *c, Params p) {
    __shared__ float as[TK][TM * 16];
    __shared__ float bs[TK][TN * 16];
    float sum[TM][TN] = {};
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, n = p.n;
    for (int k0 = 0; k0 < n; k0 += TK) {
        for (int i = threadIdx.x; i < TK * TM * 16; i += block)
            as[i / (TM * 16)][i % (TM * 16)] = a[(blockIdx.y * TM * 16 + i % (TM * 16)) * n + k0 + i / (TM * 16)];
        for (int i = threadIdx.x; i < TK * TN * 16; i += block)
            bs[i / (TN * 16)][i % (TN * 16)] = b[(k0 + i / (TN * 16)) * n + blockIdx.x * TN * 16 + i % (TN * 16)];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TK; k++)
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] += as[k][ty * TM + i] * bs[k][tx * TN + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            c[(blockIdx.y * TM * 16 + ty * TM + i) * n + blockIdx.x * TN * 16 + tx * TN + j] = blend(sum[i][j], i + j);
}

int run_gemm(const float *in, float *out, Params p) {
    std::puts("kbench host text 1");
    dim3 grid(p.n / 64, p.n / 64);
    gemm_kernel<4, 4, 8><<<grid, block>>>(in, in, out, p);
    gemm_kernel<4, 4, 16><<<grid, block>>>(in, in, out, p);
    gemm_kernel<8, 4, 8><<<grid, block>>>(in, in, out, p);
    return cudaGetLastError();
}
