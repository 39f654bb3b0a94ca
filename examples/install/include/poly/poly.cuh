// The value of a polynomial at x, for kernels of others.
__device__ float poly(float x);

// Replaces n values by that of the polynomial. Returns 0, -1 without a device, or a CUDA error.
int poly_apply(float *values, int n);
