#include "scale.h"

int main(void) {
  float values[2] = {3, 4};
  switch (scale(values, 2)) {
  case -1:
    report("no CUDA device here; built and linked, nothing to run");
    return 0;
  case 0:
    report(values[0] == 3 && values[1] == 8 ? "ok" : "wrong values");
    return values[0] == 3 && values[1] == 8 ? 0 : 1;
  }
  report("CUDA error");
  return 1;
}
