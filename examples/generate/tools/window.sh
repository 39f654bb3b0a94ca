#!/bin/sh
# window.sh DATA HEADER: writes the weights of DATA as a CUDA header.
set -eu

awk '
    /^#/ || NF == 0 { next }
    { weight[n++] = $1; sum += $1 }
    END {
        print "#pragma once"
        printf "\n#define WINDOW_SIZE %d\n\n", n
        print "__constant__ const float window[WINDOW_SIZE] = {"
        for (i = 0; i < n; i++) printf "    %.8ff,\n", weight[i] / sum
        print "};"
        printf "\nstatic const float host_window[WINDOW_SIZE] = {"
        for (i = 0; i < n; i++) printf "%s%.8ff", i ? ", " : "", weight[i] / sum
        print "};"
    }
' "$1" > "$2"
