#pragma once

#include <cuda_runtime.h>

// Adds the noise of seed i to values[i], n values on the device.
cudaError_t add_noise(float *values, int n);
