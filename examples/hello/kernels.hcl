# The smallest project: one program, compiled whole.

executable "hello" {
  sources = ["hello.cu"]
  code    = ["sm_80", "sm_90", "compute_90"]
}

test "hello" {
  executable = executable.hello
  needs_gpu  = true
}
