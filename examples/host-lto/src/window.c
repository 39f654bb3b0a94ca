#include "filter.h"

int window(int i, int width) {
  return i < 0 ? 0 : i >= width ? width - 1 : i;
}
