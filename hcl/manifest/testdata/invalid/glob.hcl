library "a" {
  sources = glob("srcs/*.cu")
}

library "b" {
  sources = glob("../*.cu")
}

library "c" {
  sources = glob("build/**/*.cu")
}

library "d" {
  sources = glob("src/*.{cu,cpp}")
}

library "e" {
  sources = glob("/src/*.cu")
}

library "f" {
  sources = glob("src/[a.cu", 3)
}

library "g" {
  sources = glob()
}
