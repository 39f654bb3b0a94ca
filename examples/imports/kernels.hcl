# A program of two folders, each with a manifest of its own.

import "fill/kernels.hcl" {}
import "sum/kernels.hcl" {}

variable "archs" {
  default = ["sm_80", "sm_90"]
}

defaults {
  code = var.archs
}

executable "app" {
  sources = ["main.cu"]
  deps    = [library["fill/kernels"], library["sum/kernels"]]
}
