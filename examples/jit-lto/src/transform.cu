#include "callback.cuh"

// Which callback this is stays open until the program runs.
extern "C" __global__ void transform(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = callback(in[i]);
}
