# A solver built with LTO, one partition of it without, and a vendor's library that has machine code only.

variable "archs" {
  type        = list(string)
  default     = ["sm_80", "sm_90"]
  description = "Code to ship."
}

gencode "gpus" {
  code = var.archs
}

defaults {
  gencode  = gencode.gpus
  mode     = "lto"
  std      = "c++17"
  includes = ["include"]
}

library "solver" {
  sources = glob("src/*.cu")

  partition "sort" {
    match = ["src/sort.cu"]
    mode  = "rdc" # gains nothing from LTO
  }
}

prebuilt "spectra" {
  archive = "third_party/libspectra.a"
  lto     = "none" # the vendor ships machine code: partial LTO, on purpose
}

executable "bench" {
  sources = ["bench/main.cpp"]
  deps    = [library.solver, prebuilt.spectra]
}
