#include "noise.cuh"

__device__ float noise(unsigned seed) { return float(mix(seed) >> 8) * 0x1p-24f; }
