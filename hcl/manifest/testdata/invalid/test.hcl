library "l" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]
}

test "of-library" {
  executable = library.l
}

test "text" {
  executable = "check"
}

test "none" {
  args = ["x"]
}

executable "check" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]
}

test "data" {
  executable = executable.check
  data       = ["no/such.bin"]
  env        = { "A=B" = "c" }
}

test "limits" {
  executable = executable.check
  timeout    = "soon"
  cache      = "sometimes"
  deps       = ["library.l", test.data]
}

test "never" {
  executable = executable.check
  timeout    = -1
}

group "g" {
  targets = [test.data]
}
