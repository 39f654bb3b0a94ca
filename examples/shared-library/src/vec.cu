#include "vec.h"

__device__ float twice(float x);

__global__ void double_kernel(float *values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = twice(values[i]);
}

int vec_double(float *values, int n) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return -1;
  float *dev = nullptr;
  cudaMalloc(&dev, n * sizeof(float));
  cudaMemcpy(dev, values, n * sizeof(float), cudaMemcpyHostToDevice);
  double_kernel<<<(n + 255) / 256, 256>>>(dev, n);
  cudaError_t err = cudaMemcpy(values, dev, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(dev);
  return err;
}
