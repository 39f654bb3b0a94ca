"""saxpy on the GPU: a shared library with its kernels, which CMake has linked and kbuild compiled."""

import ctypes
import pathlib

lib = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libsaxpy.so"))


def saxpy(a, x, y):
    n, what = len(x), ctypes.c_char_p()
    out = (ctypes.c_float * n)(*y)
    status = lib.saxpy(n, ctypes.c_float(a), (ctypes.c_float * n)(*x), out, ctypes.byref(what))
    if status != 0:
        raise RuntimeError(f"saxpy: {what.value.decode()} ({status})")
    return list(out)
