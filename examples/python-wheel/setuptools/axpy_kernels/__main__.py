"""What would be loaded where, and a try of it. Exit status: 77 without a GPU."""

import sys

from . import NoGPU, axpy, module

for arch in ("sm_80", "sm_89", "sm_90", "sm_120"):
    kernels = module("float")
    artifact = kernels.choose(arch)
    print(f"{arch}: {artifact['file']}, {len(kernels.read(artifact))} bytes")
try:
    print(axpy(2, [1, 2, 3], [10, 20, 30]))
except NoGPU as e:
    print(f"axpy_kernels: no GPU: {e}", file=sys.stderr)
    sys.exit(77)
