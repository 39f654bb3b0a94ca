library "a" {
  sources = ["src/a.cu"]
}

library "b" {
  sources = library.a.sorces
  defines = { X = gencode.g.codes }
}

gencode "g" {
  code = ["sm_80"]
}

