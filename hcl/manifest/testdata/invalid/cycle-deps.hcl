library "a" {
  sources = ["src/a.cu"]
  deps    = [library.b]
}

library "b" {
  sources = ["src/b.cu"]
  deps    = [library.c]
}

library "c" {
  sources = ["src/util.c"]
  deps    = [library.a]
}
