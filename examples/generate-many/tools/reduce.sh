#!/bin/sh
# Writes a kernel for each operation and type to a folder, and a header with all of them.
set -e
cat > "$1/reduce.h" <<'EOF'
#pragma once
struct reduction {
  const char *name;
  const void *kernel;
};
EOF
for op in sum max; do
  for type in int float; do
    case $op in
      sum) expression='a + b' ;;
      max) expression='a > b ? a : b' ;;
    esac
    cat > "$1/${op}_$type.cu" <<EOF
#include "reduce.h"

static __global__ void kernel(const $type *in, $type *out, int n) {
  $type a = in[0];
  for (int i = 1; i < n; i++) {
    $type b = in[i];
    a = $expression;
  }
  *out = a;
}

reduction ${op}_$type() { return {"${op}_$type", (const void *)kernel}; }
EOF
    echo "reduction ${op}_$type();" >> "$1/reduce.h"
    calls="$calls ${op}_$type(),"
  done
done
echo "#define ALL_REDUCTIONS $calls" >> "$1/reduce.h"
