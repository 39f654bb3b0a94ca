library "a" {
  sources = ["src/a.cu"
  mode = "lto"
}
