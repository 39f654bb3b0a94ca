#include "filter.h"

__device__ float tap(const float *in, int i, int width);

__global__ void filter(const float *in, float *out, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < width) out[i] = tap(in, i - 1, width) + tap(in, i + 1, width);
}

bool filter_on_gpu(const float *in, float *out, int width) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return false;
  float *a, *b;
  size_t bytes = width * sizeof(float);
  cudaMalloc(&a, bytes);
  cudaMalloc(&b, bytes);
  cudaMemcpy(a, in, bytes, cudaMemcpyHostToDevice);
  filter<<<(width + 127) / 128, 128>>>(a, b, width);
  bool ok = cudaMemcpy(out, b, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(a);
  cudaFree(b);
  return ok;
}
