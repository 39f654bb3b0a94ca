locals {
  a = concat(local.b, ["x"])
  b = [local.aa, var.archz]
}

variable "archs" {
  default = ["sm_80"]
}
