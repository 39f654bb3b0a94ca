library "a" {
  sources   = ["src/a.cu"]
  lto_group = "x"
}

defaults {
  lto_group = "x"
}
