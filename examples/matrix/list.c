#include <stdio.h>

#include "gemm_modules.h"

/* What a loader would choose from. */
int main(void) {
  for (const struct kbuild_embed_entry *e = gemm_modules; e->data; e++)
    printf("%s %s %s %zu bytes\n", e->variant, e->arch, e->kind, e->size);
  return 0;
}
