#include <cstdio>

#include "vec.h"

int main() {
  float values[3] = {1, 2, 3};
  switch (int err = vec_double(values, 3)) {
  case -1:
    std::puts("app: no CUDA device here; built and linked, nothing to run");
    return 0;
  case 0:
    break;
  default:
    std::fprintf(stderr, "app: CUDA error %d\n", err);
    return 1;
  }
  bool ok = values[0] == 2 && values[1] == 4 && values[2] == 6;
  std::puts(ok ? "app: ok" : "app: wrong values");
  return ok ? 0 : 1;
}
