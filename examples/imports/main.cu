#include "sum.h"

#include <cstdio>

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("imports: no CUDA device here; built, nothing to run");
    return 0;
  }
  if (int got = sum_of(8, 3); got != 24) {
    std::fprintf(stderr, "imports: the sum is %d, not 24\n", got);
    return 1;
  }
  std::puts("imports: ok");
}
