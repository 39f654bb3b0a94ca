// An exclusive sum of everything, by CUB.
#include "common.cuh"
#include <cub/device/device_scan.cuh>

int run_dscan(const float *in, float *out, Params p) {
    size_t bytes = 0;
    cub::DeviceScan::ExclusiveSum(nullptr, bytes, in, out, p.n);
    void *space = nullptr;
    cudaMalloc(&space, bytes);
    cub::DeviceScan::ExclusiveSum(space, bytes, in, out, p.n);
    cudaFree(space);
    return cudaGetLastError();
}
