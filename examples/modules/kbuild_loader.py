"""Loads modules that kbuild has built, by the manifests beside them, with the CUDA driver. It needs nothing but Python; copy it into your package.

    from kbuild_loader import find
    axpy = find("modules", "axpy", dtype="float")   # reads manifests; needs no GPU
    loaded = axpy.load()                            # on the GPU of this machine
    loaded.function("axpy").launch(blocks, threads, struct.pack("i", n), ...)

What is wrong with a module, or with it on this machine, is Refused, with the file and the field; that there is no GPU, or no driver, is NoGPU.
"""

import ctypes
import hashlib
import json
import pathlib
import re

SCHEMA = 1
CUBIN, PTX, FATBIN = "cubin", "ptx", "fatbin"


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


def fit(kind, arch, cc):
    """How well code suits a GPU of compute capability cc, 86 for 8.6; 0 if it cannot be loaded there. The same rule as kbuild_fit of kbuild's C header: the
    GPU's own machine code, that of an older one of its generation, then PTX, the newest first."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)([af]?)", arch)
    if not found or kind not in (CUBIN, PTX):
        return 0
    number, suffix = int(found[1]), found[2]
    same = number // 10 == cc // 10
    if number > cc or suffix == "a" and number != cc or suffix == "f" and not same:
        return 0
    if kind == CUBIN:
        return same and 4000 + 2 * number + bool(suffix)
    return 2000 + 2 * number + bool(suffix)


def suits(artifact, cc):
    """fit of an artifact. In a fatbin the driver looks for itself, if there is something to find."""
    if artifact["kind"] != FATBIN:
        return fit(artifact["kind"], artifact["arch"], cc)
    return any(fit(PTX if i["arch"].startswith("compute_") else CUBIN, i["arch"], cc) for i in artifact.get("images", [])) and 1


class Module:
    """An instance of a module: what one manifest tells of."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        manifest = json.loads(self.path.read_text(encoding="utf-8"))
        schema = manifest.get("schema") if isinstance(manifest, dict) else None
        if schema != SCHEMA:
            raise Refused(f"{path}: the field schema is {json.dumps(schema)}, and this loader knows {SCHEMA}")
        self.manifest = manifest
        self.name = field(manifest, "module", str, path)
        self.variant = manifest.get("variant", {})
        self.artifacts = field(manifest, "artifacts", list, path)

    def choose(self, arch):
        """The artifact that suits a GPU best: sm_90."""
        gpu = re.fullmatch(r"sm_(\d+)[af]?", arch)
        if not gpu:
            raise Refused(f"{arch} is no GPU; write sm_90")
        cc = int(gpu[1])
        best = max(self.artifacts, key=lambda a: suits(a, cc), default=None)
        if best is None or not suits(best, cc):
            have = ", ".join(f"{a['kind']} {a['arch']}".strip() for a in self.artifacts)
            raise Refused(f"nothing runs on {arch}: the module has {have}")
        return best

    def read(self, artifact):
        """The bytes of an artifact, which must be those that the manifest was written for."""
        name = field(artifact, "file", str, "an artifact")
        data = (self.path.parent / name).read_bytes()
        if len(data) != field(artifact, "size", int, name):
            raise Refused(f"{name}: the field size is {artifact['size']}, and the file has {len(data)} bytes")
        digest = hashlib.sha256(data).hexdigest()
        if digest != field(artifact, "sha256", str, name):
            raise Refused(f"{name}: the field sha256 is {artifact['sha256']}, and the file's is {digest}")
        return data

    def load(self, driver=None):
        """Loads what suits the GPU of a driver best."""
        driver = driver or Driver()
        artifact = self.choose(driver.arch)
        data = self.read(artifact)
        self.check_driver(artifact, data, driver.version)
        return Loaded(driver, artifact, driver.module(artifact["file"], data))

    def check_driver(self, artifact, data, driver):
        """Refuses what the driver is too old for, which it would do without a name. driver is 12040 for CUDA 12.4."""
        if artifact["kind"] == PTX:
            found = re.search(rb"^\.version (\d+)\.(\d+)", data, re.MULTILINE)
            if not found:
                raise Refused(f"{artifact['file']}: the text has no .version")
            major, minor = int(found[1]), int(found[2])
            # PTX 7.8 is CUDA 11.8; 8.5 is 12.5 and 12.6; 9.0 is 13.0.
            what, cuda = f"PTX {major}.{minor}", 1000 * (major + 4) + 10 * (minor + (major == 8 and minor >= 6))
        else:  # of one major version all drivers run the machine code
            compiler = self.manifest.get("compiler", {})
            if compiler.get("name") != "nvcc":
                return
            what, cuda = f"code of CUDA {compiler['version']}", 1000 * int(compiler["version"].split(".")[0])
        if driver < cuda:
            raise Refused(f"{artifact['file']}: {what} wants a driver of CUDA {cuda // 1000}.{cuda % 1000 // 10}, "
                          f"and this one is of {driver // 1000}.{driver % 1000 // 10}")


def find(folder, name, **variant):
    """The instance of a module among the manifests of a folder."""
    found = [Module(path) for path in sorted(pathlib.Path(folder).glob("*.json"))]
    for module in found:
        if module.name == name and module.variant == {axis: str(value) for axis, value in variant.items()}:
            return module
    have = ", ".join(" ".join([m.name, *(f"{axis}={value}" for axis, value in m.variant.items())]) for m in found) or "no manifest"
    wanted = " ".join([name, *(f"{axis}={value}" for axis, value in variant.items())])
    raise Refused(f"{folder} has no module {wanted}; it has {have}")


def find_kernel(artifact, name):
    for k in artifact.get("kernels") or [k for image in artifact.get("images", []) for k in image.get("kernels", [])]:
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
        status = self.lib.cuInit(0)
        if status != 0:
            raise NoGPU(f"cuInit: {self.text(status)} ({status})")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        major, minor = (self.integer("cuDeviceGetAttribute", a, device) for a in (75, 76))
        self.arch, self.version = f"sm_{major}{minor}", self.integer("cuDriverGetVersion")

    def call(self, name, *arguments, what=""):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise Refused(f"{what and what + ': '}{name}: {self.text(status)}")

    def text(self, status):
        text = ctypes.c_char_p()
        self.lib.cuGetErrorString(status, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

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

    def module(self, name, image):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image + b"\0", what=name)  # PTX is a string
        return module

    def launch(self, function, blocks, threads, arguments):
        size = ctypes.c_size_t(len(arguments))
        buffer = ctypes.create_string_buffer(arguments, len(arguments))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, None, extra)


class Loaded:
    """A module that the driver has loaded."""

    def __init__(self, driver, artifact, handle):
        self.driver, self.artifact, self.handle = driver, artifact, handle

    def function(self, name):
        return Function(self, find_kernel(self.artifact, name))


class Function:
    """A kernel. kernel is what the manifest says of it."""

    def __init__(self, loaded, kernel):
        self.driver, self.kernel, self.handle = loaded.driver, kernel, ctypes.c_void_p()
        self.driver.call("cuModuleGetFunction", ctypes.byref(self.handle), loaded.handle, kernel["name"].encode(), what=loaded.artifact["file"])

    def launch(self, blocks, threads, *values):
        """Runs it. values are the bytes of its arguments, as struct.pack and ctypes make them."""
        self.driver.launch(self.handle, blocks, threads, pack(self.kernel, values))
