# kernels.hcl: a solver library, its benchmark, and two run-time modules.

kbuild {
  required_version = ">= 0.1"
}

variable "archs" {
  type        = list(string)
  default     = ["sm_80", "sm_90", "compute_90"]
  description = "Code to ship: sm_* is SASS, compute_* is PTX, lto_* is LTO-IR."

  validation {
    condition     = length(var.archs) > 0
    error_message = "Ship code for at least one architecture."
  }
}

variable "lto" {
  type    = bool
  default = true
}

profile "dev" { # a profile is a named set of variable values
  archs = ["native"]
  lto   = false
}

toolchain "cuda" {
  compiler = "nvcc"
  version  = ">= 11.2"
}

toolchain "hip" {
  compiler = "hipcc"
}

gencode "server" {
  code = var.archs
}

gencode "jit" {
  code = ["lto_75"] # one IR; the JIT linker specialises it on the user's GPU
}

gencode "instinct" {
  code = ["gfx90a", "gfx942"]
}

defaults {
  gencode  = gencode.server
  mode     = var.lto ? "lto" : "rdc"
  std      = "c++17"
  includes = ["include"]
}

generate "tables" {
  command = ["python3", "tools/tables.py", "--out", self.outputs[0]]
  inputs  = ["tools/tables.py", "data/tables.json"]
  outputs = ["tables.cuh"]
}

library "solver" {
  sources = glob("src/solver/*.cu")
  deps    = [generate.tables]

  partition "sort" {
    match = ["src/solver/sort_*.cu"]
    mode  = "rdc" # in LTO: a long device link for nothing
  }
}

library "solver_hip" {
  sources = library.solver.sources
  deps    = [generate.tables]
  gencode = gencode.instinct
}

prebuilt "spectra" {
  archive = "third_party/libspectra.a"
  lto     = "none" # the vendor ships SASS only: partial LTO, on purpose
}

executable "bench" {
  sources = ["bench/main.cpp", "bench/suite.cu"]
  deps    = [library.solver, prebuilt.spectra]
}

module "fft_callbacks" {
  sources = glob("src/callbacks/*.cu")
  gencode = gencode.jit
  emit    = ["fatbin", "ltoir"]

  embed {
    symbol = "fft_callbacks"
  }
}

module "gemm" {
  sources = ["src/gemm.cu"]
  gencode = gencode.server
  mode    = "whole"
  emit    = ["cubin", "ptx"]

  matrix = {
    dtype = ["f16", "bf16", "f32"]
    tile  = [64, 128]
  }
  exclude = [{ dtype = "f32", tile = 128 }]

  defines = {
    GEMM_DTYPE = matrix.dtype
    GEMM_TILE  = matrix.tile
  }
}

group "default" {
  targets = [executable.bench, module.fft_callbacks]
}
