toolchain "cuda" {
  from    = "pypi"
  version = "12.6.3"
}
