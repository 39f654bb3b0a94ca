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
    C = 1e200 * 1e200
    D = 1e-200 * 1e-200
    E = tonumber("-inf")
    F = max("inf", 2)
    G = 2 / "inf"
    H = -1 / 0 > 0 ? 1 : 0
    I = 1 / (1 / 3)
  }
}
