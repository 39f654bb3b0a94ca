library "a" {
  sources  = "src/a.cu"
  deps     = "b"
  includes = { a = 1 }
  mode     = ["lto"]
  defines  = ["A=1"]
  flags    = ["-O3"]
  labels   = { a = [] }
}
