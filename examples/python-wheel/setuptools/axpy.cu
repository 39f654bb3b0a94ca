extern "C" __global__ void axpy(int n, DTYPE a, const DTYPE *x, DTYPE *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
