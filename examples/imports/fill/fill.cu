#include "fill.h"

__global__ void fill_kernel(int *values, int with) { values[threadIdx.x] = with; }

void fill(int *values, int n, int with) { fill_kernel<<<1, n>>>(values, with); }
