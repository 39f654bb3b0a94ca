library {
  sources = ["src/a.cu"]
}

library "a b" {
  sources = ["src/a.cu"]
}

defaults "x" {
}
