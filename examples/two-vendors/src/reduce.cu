#include "reduce.h"

#include "gpu.h"
#include "operators.h"

constexpr int threads = 256;

__global__ void reduce_block(const float *values, int n, float *result) {
  __shared__ float sums[threads];
  float sum = identity();
  for (int i = threadIdx.x; i < n; i += threads) sum = combine(sum, values[i]);
  sums[threadIdx.x] = sum;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] = combine(sums[threadIdx.x], sums[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) *result = sums[0];
}

void reduce(const float *values, int n, float *result) { reduce_block<<<1, threads>>>(values, n, result); }
