"""A try of saxpy. Exit status: 77 without a GPU."""

import sys

from . import saxpy

try:
    print(saxpy(2, [1, 2, 3], [10, 20, 30]))
except RuntimeError as e:
    print(e, file=sys.stderr)
    sys.exit(77)
