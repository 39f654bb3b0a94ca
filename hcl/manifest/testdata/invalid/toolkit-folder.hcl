toolchain "cuda" {
  path     = "third_party/cuda"
  compiler = "clang++"
}
