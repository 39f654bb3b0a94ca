#!/usr/bin/env python3
"""Loads a module that kbuild built: reads its manifest, checks what it says, and runs its kernel.

    load.py build/modules/axpy.float.json                         # on the GPU of this machine
    load.py build/modules/axpy.float.json --dry-run --arch sm_90  # what would be loaded there

Exit status: 0 done, 77 no GPU here, 1 the module is refused or computes something else. It needs nothing but Python.
"""

import argparse
import ctypes
import hashlib
import json
import pathlib
import re
import struct
import sys

SCHEMA = 1


class Refused(Exception):
    """The module is not what its manifest says, or not for this machine."""


class NoGPU(Exception):
    """This machine has no driver or no GPU."""


def field(where, name, kind, what):
    """The value of a field, which must be there and of a kind."""
    value = where.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"{what}: the field {name} is {json.dumps(value)}")
    return value


def read_manifest(path):
    manifest = json.loads(path.read_text(encoding="utf-8"))
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise Refused(f"{path}: the field schema is {json.dumps(schema)}, and this loader knows {SCHEMA}")
    return manifest


def number(arch):
    """80 of sm_80 and compute_80; 0 of sm_90a, which is for one GPU alone and found by its name only."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)", arch)
    return int(found[1]) if found else 0


def choose(artifacts, arch):
    """The machine code for just this GPU, else the newest PTX that it can take."""
    for a in artifacts:
        if a["kind"] == "cubin" and a["arch"] == arch:
            return a
    ptx = [a for a in artifacts if a["kind"] == "ptx" and 0 < number(a["arch"]) <= number(arch)]
    if not ptx:
        have = ", ".join(f"{a['kind']} {a['arch']}" for a in artifacts)
        raise Refused(f"nothing runs on {arch}: the module has {have}")
    return max(ptx, key=lambda a: number(a["arch"]))


def read_artifact(folder, artifact):
    """The bytes of an artifact, which must be those that the manifest was written for."""
    name = field(artifact, "file", str, "an artifact")
    data = (folder / name).read_bytes()
    if len(data) != field(artifact, "size", int, name):
        raise Refused(f"{name}: the field size is {artifact['size']}, and the file has {len(data)} bytes")
    digest = hashlib.sha256(data).hexdigest()
    if digest != field(artifact, "sha256", str, name):
        raise Refused(f"{name}: the field sha256 is {artifact['sha256']}, and the file's is {digest}")
    return data


def check_driver(artifact, data, driver):
    """Refuses PTX that is newer than the driver, which would say CUDA_ERROR_UNSUPPORTED_PTX_VERSION. driver is 12040 for CUDA 12.4."""
    if artifact["kind"] != "ptx":
        return
    found = re.search(rb"^\.version (\d+)\.(\d+)", data, re.MULTILINE)
    if not found:
        raise Refused(f"{artifact['file']}: the text has no .version")
    major, minor = int(found[1]), int(found[2])
    cuda = 1000 * (major + 4) + 10 * (minor + (major == 8 and minor >= 6))  # PTX 7.8 is CUDA 11.8; 8.5 is 12.5 and 12.6
    if driver < cuda:
        raise Refused(f"{artifact['file']}: PTX {major}.{minor} wants a driver of CUDA {cuda // 1000}.{cuda % 1000 // 10}, "
                      f"and this one is of {driver // 1000}.{driver % 1000 // 10}")


def find_kernel(artifact, name):
    for k in artifact.get("kernels", []):
        if name in (k["name"], k.get("demangled")):
            return k
    raise Refused(f"{artifact['file']}: the field kernels has no {name}")


def pack(kernel, values):
    """The arguments as the kernel reads them: each value, in its bytes, where the layout says."""
    params = field(kernel, "params", list, kernel["name"])
    if len(params) != len(values):
        raise Refused(f"{kernel['name']}: the field params has {len(params)} entries, and there are {len(values)} arguments")
    buffer = bytearray(field(kernel, "param_bytes", int, kernel["name"]))
    for p, value in zip(sorted(params, key=lambda p: p["index"]), values):
        if p["size"] != len(value) or p["offset"] + p["size"] > len(buffer):
            raise Refused(f"{kernel['name']}: parameter {p['index']} has {p['size']} bytes at {p['offset']} of {len(buffer)}, "
                          f"and its argument {len(value)}")
        buffer[p["offset"]:p["offset"] + p["size"]] = value
    return bytes(buffer)


class Driver:
    """The functions of the CUDA driver; what they return is checked."""

    def __init__(self):
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise NoGPU(e) from e
        if self.lib.cuInit(0) != 0:
            raise NoGPU("the driver finds no GPU")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        major, minor = (self.integer("cuDeviceGetAttribute", a, device) for a in (75, 76))
        self.arch, self.version = f"sm_{major}{minor}", self.integer("cuDriverGetVersion")

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(status, ctypes.byref(text))
            raise Refused(f"{name}: {(text.value or b'unknown error').decode()}")

    def integer(self, name, *arguments):
        value = ctypes.c_int()
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def memory(self, data):
        """The address of a copy on the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))  # waits for the kernel
        return data.raw

    def function(self, image, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image + b"\0")  # PTX is a string
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function, blocks, threads, arguments):
        size = ctypes.c_size_t(len(arguments))
        buffer = ctypes.create_string_buffer(arguments, len(arguments))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, None, extra)


def run(driver, image, kernel, letter):
    """y += a * x on the GPU, compared with the CPU. letter is the type, as struct spells it."""
    n, a = 1000, 2.5
    x, y = [i / 4 for i in range(n)], [1.0] * n
    gpu_x, gpu_y = (driver.memory(struct.pack(f"{n}{letter}", *v)) for v in (x, y))
    arguments = pack(kernel, [struct.pack("i", n), struct.pack(letter, a), struct.pack("Q", gpu_x.value), struct.pack("Q", gpu_y.value)])
    driver.launch(driver.function(image, kernel["name"]), (n + 255) // 256, 256, arguments)
    got = struct.unpack(f"{n}{letter}", driver.read(gpu_y, n * struct.calcsize(letter)))
    for i in range(n):
        if got[i] != y[i] + a * x[i]:
            raise Refused(f"y[{i}] is {got[i]}, and {y[i] + a * x[i]} on the CPU")
    print(f"{n} elements: as on the CPU")


def load(path, arch, dry):
    manifest = read_manifest(path)
    driver = None if dry else Driver()
    artifact = choose(field(manifest, "artifacts", list, path), arch or driver.arch)
    image = read_artifact(path.parent, artifact)
    kernel = find_kernel(artifact, "axpy")
    print(f"{artifact['file']}: {artifact['kind']} {artifact['arch']}, {len(image)} bytes, as the manifest says")
    for p in kernel["params"]:
        print(f"  parameter {p['index']}: {p['size']} bytes at {p['offset']}")
    if driver:
        check_driver(artifact, image, driver.version)
        run(driver, image, kernel, {"float": "f", "double": "d"}[manifest["variant"]["dtype"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="check what would be loaded, and load nothing")
    parser.add_argument("--arch", help="load for this architecture, not for the GPU of this machine")
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
