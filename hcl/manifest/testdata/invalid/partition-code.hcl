library "linked" {
  sources = ["src/a.cu", "src/b.cu"]
  code    = ["sm_80"]
  mode    = "lto"

  partition "b" {
    match = ["src/b.cu"]
    code  = ["sm_90"]
  }
}

library "vendors" {
  sources = ["src/a.cu", "src/b.cu"]
  code    = ["sm_80"]

  partition "b" {
    match = ["src/b.cu"]
    code  = ["gfx90a"]
  }
}

module "m" {
  sources = ["src/a.cu", "src/b.cu"]
  code    = ["sm_80"]

  partition "b" {
    match = ["src/b.cu"]
    code  = ["sm_90"]
  }
}

library "std" {
  sources  = ["src/a.cu"]
  code     = ["sm_80"]
  cuda_std = "c11"
}
