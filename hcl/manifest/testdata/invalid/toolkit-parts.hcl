toolchain "cuda" {
  parts = ["cublas"]
}
