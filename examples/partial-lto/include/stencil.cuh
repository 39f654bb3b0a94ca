#pragma once

// Defined in src/stencil.cu: inlined into src/relax.cu by LTO, a call without.
__device__ float stencil(const float *values, int i, int n);

// Defined in the vendor's library: stays a call.
__device__ float spectra_weight(float value);
