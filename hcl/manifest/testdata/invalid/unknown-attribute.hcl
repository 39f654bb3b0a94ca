library "a" {
  source = ["src/a.cu"]
  srcs = ["src/a.cu"]
  zzz = 1
}
