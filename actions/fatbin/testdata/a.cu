__device__ int f(int x) { return 3 * x; }
