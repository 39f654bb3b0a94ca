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

group "g" {
  targets = [test.data]
}
