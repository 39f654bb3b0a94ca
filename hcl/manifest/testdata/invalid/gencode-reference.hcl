gencode "g" {
  code = ["sm_80"]
}

library "a" {
  sources = ["src/a.cu"]
  gencode = "g"
}

library "b" {
  sources = ["src/b.cu"]
  gencode = library.a
}

library "c" {
  sources = ["src/b.cu"]
  gencode = ["sm_80"]
}

library "d" {
  sources = ["src/b.cu"]
  gencode = gencode.g
  code    = ["sm_80"]
}
