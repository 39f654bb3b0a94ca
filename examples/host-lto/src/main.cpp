// The same filter on the CPU: weight() and window() are in other files, and in the loop after LTO.
#include "filter.h"

#include <cmath>
#include <cstdio>
#include <vector>

static void filter_on_cpu(const float *in, float *out, int width) {
  for (int i = 0; i < width; i++)
    out[i] = in[window(i - 1, width)] * weight(i - 1, width) + in[window(i + 1, width)] * weight(i + 1, width);
}

int main() {
  const int width = 1000;
  std::vector<float> in(width), cpu(width), gpu(width);
  for (int i = 0; i < width; i++) in[i] = i % 7;
  filter_on_cpu(in.data(), cpu.data(), width);
  if (!filter_on_gpu(in.data(), gpu.data(), width)) {
    std::puts("no GPU here; the filter ran on the CPU alone");
    return 0;
  }
  for (int i = 0; i < width; i++) {
    if (std::fabs(cpu[i] - gpu[i]) > 1e-5f) {
      std::printf("wrong at %d: %g, %g\n", i, cpu[i], gpu[i]);
      return 1;
    }
  }
  std::puts("ok");
}
