#include "poly/poly.cuh"

__device__ float poly(float x) { return (x + 2.0f) * x + 1.0f; }
