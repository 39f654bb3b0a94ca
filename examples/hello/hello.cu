#include <cstdio>

__global__ void square(int *values) { values[threadIdx.x] *= values[threadIdx.x]; }

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("hello: no CUDA device here; built, nothing to run");
    return 0;
  }
  int host[8] = {0, 1, 2, 3, 4, 5, 6, 7}, *dev = nullptr;
  cudaMalloc(&dev, sizeof host);
  cudaMemcpy(dev, host, sizeof host, cudaMemcpyHostToDevice);
  square<<<1, 8>>>(dev);
  cudaMemcpy(host, dev, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 8; i++) {
    if (host[i] != i * i) {
      std::fprintf(stderr, "hello: %d squared is %d\n", i, host[i]);
      return 1;
    }
  }
  std::puts("hello: ok");
}
