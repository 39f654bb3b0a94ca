# var: a=inf
# env: b=1,inf
# var: c=[1/0]
# local: d = 1 / 0
variable "a" {
  type = number
}

variable "b" {
  type = list(number)
}

variable "c" {
}

variable "d" {
}
