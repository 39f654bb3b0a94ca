# local: library "a" {}
variable "lto" {
  default = true
}
