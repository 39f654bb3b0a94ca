#include <stdio.h>
#include <stdlib.h>

#include "gemm_modules.h"

/* What is embedded; with an argument such as 86, what a loader would take on a GPU of compute capability 8.6. */
int main(int argc, char **argv) {
  const struct kbuild_artifact *a = gemm_modules, *best;
  if (argc > 1) {
    best = kbuild_best(gemm_modules, "dtype=float,tile=16", NULL, atoi(argv[1]));
    puts(best != NULL ? best->name : "none");
    return best == NULL;
  }
  for (; a->data != NULL; a++)
    printf("%s %s %s %zu bytes\n", a->variant, a->arch, a->name, a->size);
  return 0;
}
