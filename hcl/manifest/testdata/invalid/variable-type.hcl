variable "n" {
  type    = number
  default = "many"
}

variable "l" {
  type    = list(strng)
  default = []
}

variable "m" {
  type = bool
}
