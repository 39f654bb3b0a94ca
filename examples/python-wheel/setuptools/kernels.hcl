# What a wheel for every GPU ships: machine code for those that it is for, and PTX for those to come.

module "axpy" {
  sources = ["axpy.cu"]
  code    = ["sm_80", "sm_90"]
  emit    = ["cubin", "ptx"]

  matrix = {
    dtype = ["float", "double"]
  }

  defines = {
    DTYPE = matrix.dtype
  }
}
