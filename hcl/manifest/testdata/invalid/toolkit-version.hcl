toolchain "cuda" {
  from = "pypi"
}
