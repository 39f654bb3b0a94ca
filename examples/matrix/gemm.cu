// C = A * B for square matrices whose size is a multiple of TILE.
extern "C" __global__ void gemm(const DTYPE *a, const DTYPE *b, DTYPE *c, int n) {
  __shared__ DTYPE ta[TILE][TILE], tb[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  DTYPE sum = 0;
  for (int k = 0; k < n; k += TILE) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
