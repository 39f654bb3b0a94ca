# Host code optimised across files, beside device code that is.

variable "lto" {
  type        = bool
  default     = true
  description = "Optimise across files, on the device and on the host."
}

profile "dev" { # quick links while editing
  lto = false
}

defaults {
  code     = ["sm_80", "sm_90"]
  mode     = var.lto ? "lto" : "rdc"
  host_lto = var.lto ? "full" : "none" # "thin" with a clang++ as host compiler
}

library "filter" {
  sources = ["src/filter.cu", "src/taps.cu", "src/weight.cpp", "src/window.c"]
}

executable "app" {
  sources = ["src/main.cpp"]
  deps    = [library.filter]
}
