#include <cstdio>

#include "reduce.h"

int main() {
  const reduction all[] = {ALL_REDUCTIONS};
  for (const reduction &r : all)
    std::printf("%s%s\n", r.name, r.kernel ? "" : " has no kernel");
  std::printf("%zu reductions\n", sizeof all / sizeof *all);
}
