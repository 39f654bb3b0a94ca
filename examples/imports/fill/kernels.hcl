# Built alone, this folder is for one architecture.

variable "archs" {
  default = ["sm_80"]
}

library "kernels" {
  sources  = glob("*.cu")
  includes = ["."]
  code     = var.archs
}
