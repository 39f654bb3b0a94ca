library "a" {
  sources = ["src/a.cu"]

  flags = {
    nvc  = ["-lineinfo"]
    nvcc = ["-gencode=arch=compute_80,code=sm_80", "--use_fast_math", "-v"]
    host = "-Wall"
  }
  libs     = ["-lm", "z"]
  includes = ["-Iinclude"]
  defines  = { "A B" = 1 }
}
