#pragma once

// Doubles n values in place, on a GPU if there is one. Returns 0, -1 without a device, or a CUDA error.
int vec_double(float *values, int n);
