# One kernel for several types and tile sizes, as run-time modules, embedded into a program.

module "gemm" {
  sources = ["gemm.cu"]
  code    = ["sm_80", "sm_90"]
  mode    = "whole"
  emit    = ["cubin", "ptx"]

  matrix = {
    dtype = ["float", "double"]
    tile  = [8, 16]
  }
  exclude = [{ dtype = "double", tile = 16 }]

  defines = {
    DTYPE = matrix.dtype
    TILE  = matrix.tile
  }

  embed {
    symbol = "gemm_modules"
  }
}

executable "list" {
  sources = ["list.c"]
  deps    = [module.gemm]
}
