# A static library that CMake links into a shared one, which is why its host code is compiled for that.

library "saxpy" {
  sources        = ["kernel.cu"]
  public_headers = ["kernel.h"]
  code           = ["sm_80", "sm_90", "compute_90"]
  flags          = { host = ["-fPIC"] }
}
