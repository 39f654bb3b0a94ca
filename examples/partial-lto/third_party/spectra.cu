// Stands for a vendor's library: what a program gets of it is libspectra.a, made by the Makefile here
// with machine code only.
__device__ float spectra_weight(float value) { return 1.0f / (1.0f + value * value); }
