library "a" {
  sources = []
  defines = { TILE = 64, SAME = 1 }
}

library "b" {
  sources = []
  defines = { TILE = 32, SAME = 1 }
}

executable "app" {
  sources = ["src/a.cu"]
  deps    = [library.a, library.b]
}
