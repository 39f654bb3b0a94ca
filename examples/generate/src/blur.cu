// Blurs a ramp with the window of the generated header; checked on the CPU.

#include <cmath>
#include <cstdio>
#include <vector>

#include "window.cuh" // made by generate.window

constexpr int n = 512;

__global__ void blur(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < WINDOW_SIZE; k++) {
        int j = min(max(i + k - WINDOW_SIZE / 2, 0), n - 1);
        sum += window[k] * in[j];
    }
    out[i] = sum;
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("blur: no CUDA device; nothing was computed");
        return 0;
    }

    std::vector<float> in(n), out(n);
    for (int i = 0; i < n; i++) in[i] = float(i % 17);
    float *d = nullptr;
    cudaMalloc(&d, 2 * n * sizeof(float));
    cudaMemcpy(d, in.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    blur<<<(n + 127) / 128, 128>>>(d, d + n);
    cudaMemcpy(out.data(), d + n, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d);
    if (cudaError_t e = cudaGetLastError()) {
        std::printf("blur: %s\n", cudaGetErrorString(e));
        return 1;
    }

    for (int i = 0; i < n; i++) {
        float want = 0;
        for (int k = 0; k < WINDOW_SIZE; k++) {
            int j = i + k - WINDOW_SIZE / 2;
            want += host_window[k] * in[j < 0 ? 0 : j >= n ? n - 1 : j];
        }
        if (std::fabs(out[i] - want) > 1e-4f) {
            std::printf("blur: out[%d] is %g, not %g\n", i, out[i], want);
            return 1;
        }
    }
    std::printf("blur: %d values are right\n", n);
    return 0;
}
