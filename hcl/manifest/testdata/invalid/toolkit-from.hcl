toolchain "cuda" {
  from = "pip"
}
