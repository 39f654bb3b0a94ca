#include "callback.cuh"

extern "C" __device__ float callback(float x) { return x * x; }
