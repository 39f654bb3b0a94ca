# One kernel for two types, as files that a program in another language loads when it runs.

module "axpy" {
  sources = ["axpy.cu"]
  code    = ["sm_80", "sm_90"]
  mode    = "whole"
  emit    = ["cubin", "ptx"]

  matrix = {
    dtype = ["float", "double"]
  }

  defines = {
    DTYPE = matrix.dtype
  }
}
