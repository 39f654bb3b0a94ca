module "a" {
  sources = ["src/gemm.cu"]
  matrix  = { tile = [64, 64], dtype = ["f16"] }
  exclude = [{ tyle = 64 }, { tile = 32 }]
  defines = { T = matrix.tiel }
}

module "b" {
  sources = ["src/gemm.cu"]
  matrix  = { tile = 64, empty = [], odd = ["a/b"] }
}

module "c" {
  sources = ["src/gemm.cu"]
  matrix  = { tile = [64] }
  exclude = [{ tile = 64 }]
}

module "d" {
  sources = ["src/gemm.cu"]
  exclude = [{ tile = 64 }]
}
