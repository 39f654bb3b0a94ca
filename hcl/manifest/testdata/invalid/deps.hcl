library "a" {
  sources = ["src/a.cu"]
}

executable "app" {
  sources = ["src/main.cpp"]
  deps    = ["a", gencode.g, 3]
}

gencode "g" {
  code = ["sm_80"]
}

