#include <cub/cub.cuh>

// The sum of one block, in all threads of it.
__device__ float block_sum(float x) {
  typedef cub::BlockReduce<float, 128> Reduce;
  __shared__ typename Reduce::TempStorage temp;
  __shared__ float total;
  float sum = Reduce(temp).Sum(x);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  return total;
}
