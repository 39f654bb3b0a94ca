#include "fill.h"
#include "sum.h"

__global__ void sum_kernel(const int *values, int *sum) { atomicAdd(sum, values[threadIdx.x]); }

int sum_of(int n, int each) {
  int *dev = nullptr, sum = 0;
  cudaMalloc(&dev, (n + 1) * sizeof *dev);
  cudaMemset(dev, 0, (n + 1) * sizeof *dev);
  fill(dev, n, each);
  sum_kernel<<<1, n>>>(dev, dev + n);
  cudaMemcpy(&sum, dev + n, sizeof sum, cudaMemcpyDeviceToHost);
  cudaFree(dev);
  return sum;
}
