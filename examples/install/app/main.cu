#include <cstdio>

#include "poly/poly.cuh"

__global__ void twice_kernel(float *values) { values[threadIdx.x] = 2.0f * poly(values[threadIdx.x]); }

int main() {
  float values[2] = {1, 2}, *dev = nullptr;
  if (cudaMalloc(&dev, sizeof values) != cudaSuccess) {
    std::puts("app: no CUDA device here; built and linked, nothing to run");
    return 0;
  }
  cudaMemcpy(dev, values, sizeof values, cudaMemcpyHostToDevice);
  twice_kernel<<<1, 2>>>(dev);
  bool ok = cudaMemcpy(values, dev, sizeof values, cudaMemcpyDeviceToHost) == cudaSuccess && values[0] == 8 && values[1] == 18;
  std::puts(ok ? "app: ok" : "app: wrong");
  return ok ? 0 : 1;
}
