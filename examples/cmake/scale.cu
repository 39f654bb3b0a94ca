#include "scale.h"

__device__ float factor(int i);

__global__ void scale_kernel(float *values) { values[threadIdx.x] *= factor(threadIdx.x); }

int scale(float *values, int n) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return -1;
  float *dev = nullptr;
  cudaMalloc(&dev, n * sizeof(float));
  cudaMemcpy(dev, values, n * sizeof(float), cudaMemcpyHostToDevice);
  scale_kernel<<<1, n>>>(dev);
  cudaError_t err = cudaMemcpy(values, dev, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(dev);
  return err;
}
