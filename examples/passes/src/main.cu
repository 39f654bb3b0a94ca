#include <cmath>
#include <cstdio>

__device__ float block_sum(float x);

__global__ void normalise(float *values) {
  float x = values[threadIdx.x];
#if __CUDA_ARCH__ >= 900
  x *= 1.0f; // for sm_90 only: editing it compiles sm_90 only
#endif
  values[threadIdx.x] = x / block_sum(x);
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("app: no CUDA device here; built and linked, nothing to run");
    return 0;
  }
  float host[128], *dev = nullptr;
  for (int i = 0; i < 128; i++) host[i] = i + 1;
  cudaMalloc(&dev, sizeof host);
  cudaMemcpy(dev, host, sizeof host, cudaMemcpyHostToDevice);
  normalise<<<1, 128>>>(dev);
  cudaMemcpy(host, dev, sizeof host, cudaMemcpyDeviceToHost);
  if (std::fabs(host[127] - 128.0f / (128 * 129 / 2)) > 1e-6f) {
    std::fprintf(stderr, "app: wrong value %g\n", host[127]);
    return 1;
  }
  std::puts("app: ok");
}
