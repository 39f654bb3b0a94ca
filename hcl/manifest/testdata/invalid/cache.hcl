variable "server" {
  default = "ftp://cache.example"
}

cache {
  remote    = "cache.example:8980"
  read_only = "never"
  token     = "secret"
}

cache {
  remote = var.server
}

library "a" {
  sources = ["src/a.cu"]
  code    = ["sm_80"]
}
