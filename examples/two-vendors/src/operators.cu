#include "gpu.h"
#include "operators.h"

__device__ float identity() { return 0.0f; }
__device__ float combine(float a, float b) { return fmaf(a, 1.0f, b); }
