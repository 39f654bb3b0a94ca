#include "solver.h"

// Odd-even transposition: n rounds, one block.
__global__ void sort_kernel(float *values, int n) {
  for (int round = 0; round < n; round++) {
    for (int i = 2 * threadIdx.x + round % 2; i + 1 < n; i += 2 * blockDim.x) {
      float a = values[i], b = values[i + 1];
      if (a > b) {
        values[i] = b;
        values[i + 1] = a;
      }
    }
    __syncthreads();
  }
}

cudaError_t sort_values(float *values, int n) {
  sort_kernel<<<1, 256>>>(values, n);
  return cudaGetLastError();
}
