library "a" {
  sources  = ["src/a.cu"]
  host_lto = true
}

module "m" {
  sources  = ["src/a.cu"]
  host_lto = "full"
}

defaults {
  host_lto = "Thin"
}
