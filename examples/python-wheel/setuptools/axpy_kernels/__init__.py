"""axpy on the GPU: the kernels are files of this package, which kbuild has compiled."""

import pathlib
import struct

from ._loader import NoGPU, Refused, find

__all__ = ["NoGPU", "Refused", "axpy", "module"]


def module(dtype):
    """The module for a type. It is read and checked without a GPU."""
    return find(pathlib.Path(__file__).parent / "modules", "axpy", dtype=dtype)


def axpy(a, x, y, dtype="float"):
    """a * x + y, computed on the GPU."""
    n, letter = len(x), {"float": "f", "double": "d"}[dtype]
    loaded = module(dtype).load()
    gpu_x, gpu_y = (loaded.driver.memory(struct.pack(f"{n}{letter}", *v)) for v in (x, y))
    arguments = [struct.pack("i", n), struct.pack(letter, a), struct.pack("Q", gpu_x.value), struct.pack("Q", gpu_y.value)]
    loaded.function("axpy").launch((n + 255) // 256, 256, *arguments)
    return list(struct.unpack(f"{n}{letter}", loaded.driver.read(gpu_y, n * struct.calcsize(letter))))
