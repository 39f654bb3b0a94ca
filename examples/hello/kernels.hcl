# The smallest project: one program, compiled whole.

executable "hello" {
  sources = ["hello.cu"]
  code    = ["sm_80", "sm_90", "compute_90"]
}
