# A CUDA toolkit that the tests build with, beside the one in PATH and .ci/cuda.
toolchain "cuda" {
  from    = "pypi"
  version = "13.0.2"
}
