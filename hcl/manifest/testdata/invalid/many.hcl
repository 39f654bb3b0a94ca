variable "lto" {
  type    = bol
  default = true
}

library "a" {
  sources = ["src/missing.cu"]
  mode    = var.lot ? "lto" : "rdc"
}

executable "e" {
  deps = [library.b]
}
