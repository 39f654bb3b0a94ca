// The floor of running commands: runs those of the file argv[2], argv[1] at once. Every argument ends with a zero byte and every
// command with an empty argument; an empty command waits for all before it.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;
static int running, failed;

static void wait_below(int n) {
  for (int status; running >= n; running--) {
    wait(&status);
    failed |= status;
  }
}

int main(int argc, char **argv) {
  int jobs = atoi(argv[1]);
  FILE *f = fopen(argv[2], "r");
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *text = malloc(n + 1), *end = text + n, **args = malloc(n * sizeof *args);
  if (fread(text, 1, n, f) != n) return 1;
  for (char *p = text; p < end; p++) {
    int k = 0;
    for (; *p; p += strlen(p) + 1) args[k++] = p;
    args[k] = 0;
    wait_below(k ? jobs : 1);
    pid_t pid;
    if (k && posix_spawnp(&pid, args[0], 0, 0, args, environ)) return 1;
    running += k > 0;
  }
  wait_below(1);
  return failed != 0;
}
