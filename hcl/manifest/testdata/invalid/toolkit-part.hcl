toolchain "cuda" {
  from    = "pypi"
  version = "13.5.0"
  parts   = ["cublas", "cuFFT==1"]
}
