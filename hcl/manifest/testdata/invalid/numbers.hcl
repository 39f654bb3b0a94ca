variable "n" {
  type    = number
  default = "inf"
}

locals {
  zero = 0
  far  = [for x in [1, local.zero] : "${1 / x}"]
}

library "a" {
  sources       = ["bench/main.cpp"]
  max_registers = 1 / 0
  memory        = 5 % 0
  defines = {
    A = 0 / 0
    H = -1 / 0 > 0 ? 1 : 0
    I = 1 / (1 / 3)
  }
}
