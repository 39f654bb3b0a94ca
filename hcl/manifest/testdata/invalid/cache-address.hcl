variable "server" {
  default = "ftp://cache.example"
}

cache {
  remote = var.server
}

library "a" {
  sources = ["src/a.cu"]
  code    = ["sm_80"]
}
