#include <cmath>
#include <cstdio>

__device__ float blend(float a, float b, float t);

__global__ void fade(float *values, int n) {
  int i = threadIdx.x;
  if (i < n) values[i] = blend(values[i], 1.0f, 0.5f);
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("app: no CUDA device here; built and linked, nothing to run");
    return 0;
  }
  float host[4] = {0, 0.5f, 1, 2}, *dev = nullptr;
  cudaMalloc(&dev, sizeof host);
  cudaMemcpy(dev, host, sizeof host, cudaMemcpyHostToDevice);
  fade<<<1, 4>>>(dev, 4);
  float out[4];
  cudaMemcpy(out, dev, sizeof out, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 4; i++) {
    if (std::fabs(out[i] - (host[i] + 0.5f * (1 - host[i]))) > 1e-6f) {
      std::fprintf(stderr, "app: wrong value %g\n", out[i]);
      return 1;
    }
  }
  std::puts("app: ok");
}
