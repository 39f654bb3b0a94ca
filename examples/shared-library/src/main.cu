// The library adds noise, the program takes it away again; what is left must be what was there.

#include <cmath>
#include <cstdio>
#include <vector>

#include "filters.h"
#include "noise.cuh"

__global__ void remove_noise(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] -= noise(i);
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("denoise: no CUDA device; nothing was computed");
        return 0;
    }

    const int n = 1000;
    std::vector<float> noisy(n), values(n, 3.0f);
    float *d = nullptr;
    cudaMalloc(&d, n * sizeof(float));
    cudaMemcpy(d, values.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaError_t e = add_noise(d, n);
    cudaMemcpy(noisy.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost);
    remove_noise<<<(n + 255) / 256, 256>>>(d, n);
    cudaMemcpy(values.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d);
    if (e != cudaSuccess || (e = cudaGetLastError()) != cudaSuccess) {
        std::printf("denoise: %s\n", cudaGetErrorString(e));
        return 1;
    }

    for (int i = 0; i < n; i++) {
        float want = 3.0f + float(mix(i) >> 8) * 0x1p-24f;
        if (std::fabs(noisy[i] - want) > 1e-6f || std::fabs(values[i] - 3.0f) > 1e-6f) {
            std::printf("denoise: value %d is %g, then %g\n", i, noisy[i], values[i]);
            return 1;
        }
    }
    std::printf("denoise: %d values are right\n", n);
    return 0;
}
