# var: lto=maybe
# var: ltoo=true
# env: n=x
# env: archz=1
variable "lto" {
  type    = bool
  default = true
}

variable "n" {
  type    = list(number)
  default = [1]
}
