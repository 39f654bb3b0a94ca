#include "filter.h"

float weight(int i, int width) {
  return width - window(i, width);
}
