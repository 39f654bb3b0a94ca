__device__ float blend(float a, float b, float t) { return a + t * (b - a); }
