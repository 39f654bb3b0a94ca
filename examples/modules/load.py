#!/usr/bin/env python3
"""Loads a module that kbuild built: reads its manifest, checks what it says, and runs its kernel.

    load.py build/modules/axpy.float.json                         # on the GPU of this machine
    load.py build/modules/axpy.float.json --dry-run --arch sm_90  # what would be loaded there

Exit status: 0 done, 77 no GPU here, 1 the module is refused or computes something else. It needs nothing but Python.
"""

import argparse
import pathlib
import struct
import sys

from kbuild_loader import Driver, Module, NoGPU, Refused, find_kernel


def run(loaded, letter):
    """y += a * x on the GPU, compared with the CPU. letter is the type, as struct spells it."""
    n, a = 1000, 2.5
    x, y = [i / 4 for i in range(n)], [1.0] * n
    gpu_x, gpu_y = (loaded.driver.memory(struct.pack(f"{n}{letter}", *v)) for v in (x, y))
    arguments = [struct.pack("i", n), struct.pack(letter, a), struct.pack("Q", gpu_x.value), struct.pack("Q", gpu_y.value)]
    loaded.function("axpy").launch((n + 255) // 256, 256, *arguments)
    got = struct.unpack(f"{n}{letter}", loaded.driver.read(gpu_y, n * struct.calcsize(letter)))
    for i in range(n):
        if got[i] != y[i] + a * x[i]:
            raise Refused(f"y[{i}] is {got[i]}, and {y[i] + a * x[i]} on the CPU")
    print(f"{n} elements: as on the CPU")


def load(path, arch, dry):
    module = Module(path)
    driver = None if dry else Driver()
    artifact = module.choose(arch or driver.arch)
    image = module.read(artifact)
    kernel = find_kernel(artifact, "axpy")
    print(f"{artifact['file']}: {artifact['kind']} {artifact['arch']}, {len(image)} bytes, as the manifest says")
    for p in kernel["params"]:
        print(f"  parameter {p['index']}: {p['size']} bytes at {p['offset']}")
    if driver:
        run(module.load(driver), {"float": "f", "double": "d"}[module.variant["dtype"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="check what would be loaded, and load nothing")
    parser.add_argument("--arch", help="the GPU to check for")
    options = parser.parse_args()
    if options.dry_run and not options.arch:
        parser.error("--dry-run needs --arch")
    try:
        load(options.manifest, options.arch, options.dry_run)
    except NoGPU as e:
        print(f"load.py: no GPU: {e}", file=sys.stderr)
        return 77
    except (Refused, OSError, ValueError, KeyError) as e:
        print(f"load.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
