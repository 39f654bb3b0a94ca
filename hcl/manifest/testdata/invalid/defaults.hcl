defaults {
  mode    = "lot"
  sources = []
}

library "a" {
  sources = ["src/a.cu"]
}

library "b" {
  sources = ["src/b.cu"]
}
