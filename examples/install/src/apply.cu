#include "poly/poly.cuh"

__global__ void apply_kernel(float *values) { values[threadIdx.x] = poly(values[threadIdx.x]); }

int poly_apply(float *values, int n) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return -1;
  float *dev = nullptr;
  cudaMalloc(&dev, n * sizeof(float));
  cudaMemcpy(dev, values, n * sizeof(float), cudaMemcpyHostToDevice);
  apply_kernel<<<1, n>>>(dev);
  cudaError_t err = cudaMemcpy(values, dev, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(dev);
  return err;
}
