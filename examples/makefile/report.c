#include <stdio.h>

#include "scale.h"

void report(const char *text) { printf("app: %s\n", text); }
