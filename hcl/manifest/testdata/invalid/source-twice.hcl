library "a" {
  sources = concat(glob("src/*.cu"), ["src/a.cu", "./src/b.cu"])
}
