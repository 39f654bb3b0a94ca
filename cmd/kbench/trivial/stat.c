// The floor: looks at every file whose name stands in the file argv[1], a zero byte after each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
  FILE *f = fopen(argv[1], "r");
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *names = malloc(n + 1), *end = names + n;
  if (fread(names, 1, n, f) != n) return 1;
  struct stat st;
  for (char *p = names; p < end; p += strlen(p) + 1)
    if (lstat(p, &st)) return 1;
  return 0;
}
