#pragma once

#include <cuda_runtime.h>

// One relaxation step over n values, and a sort of them, on the current device.
cudaError_t relax(float *values, int n);
cudaError_t sort_values(float *values, int n);
