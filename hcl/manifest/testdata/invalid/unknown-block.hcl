libary "a" {
  sources = ["src/a.cu"]
}
