#include "filters.h"
#include "noise.cuh"

__global__ void add_noise_kernel(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += noise(i);
}

cudaError_t add_noise(float *values, int n) {
    add_noise_kernel<<<(n + 255) / 256, 256>>>(values, n);
    return cudaGetLastError();
}
