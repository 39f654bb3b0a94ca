__device__ float factor(int i) { return i + 1.0f; }
