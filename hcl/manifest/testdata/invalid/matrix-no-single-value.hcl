module "a" {
  sources = ["src/gemm.cu"]
  matrix  = { tile = [64, 128] }
  defines = { T = matrix.tile }
}

library "b" {
  sources = ["src/a.cu"]
  defines = module.a.defines
}
