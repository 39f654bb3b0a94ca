#include "stencil.cuh"

__device__ float stencil(const float *values, int i, int n) {
  float left = values[i > 0 ? i - 1 : 0];
  float right = values[i + 1 < n ? i + 1 : n - 1];
  return 0.25f * left + 0.5f * values[i] + 0.25f * right;
}
