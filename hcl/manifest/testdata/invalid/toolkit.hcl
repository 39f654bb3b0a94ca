toolchain "cuda" {
  from    = "pypi"
  version = ">= 13"
}
