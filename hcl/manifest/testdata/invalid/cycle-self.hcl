library "a" {
  sources = ["src/a.cu"]
  deps    = [library.a]
}
