# One program for two vendors: the same sources, compiled by nvcc for NVIDIA's GPUs and by hipcc for AMD's.

variable "nvidia" {
  type    = list(string)
  default = ["sm_80", "sm_90"]
}

variable "amd" {
  type    = list(string)
  default = ["gfx906", "gfx90a"]
}

variable "lto" {
  type    = bool
  default = true
}

profile "dev" { # quick links while editing: kbuild --profile dev
  lto = false
}

locals {
  sources = ["src/reduce.cu", "src/operators.cu", "src/main.cu"]
}

defaults {
  mode = var.lto ? "lto" : "rdc"
}

executable "reduce_cuda" {
  sources = local.sources
  code    = var.nvidia
}

executable "reduce_hip" {
  sources = local.sources
  code    = var.amd
}
