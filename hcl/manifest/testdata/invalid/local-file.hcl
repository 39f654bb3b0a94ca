# local: lot = true
variable "lto" {
  default = true
}
