library "a" {
  sources   = ["src/a.cu"]
  host_lto  = true
  lto_group = "x"
}

defaults {
  host_lto = true
}
