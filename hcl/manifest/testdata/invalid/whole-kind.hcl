locals {
  a = library
  b = var
}

executable "e" {
  sources = ["src/main.cpp"]
  deps    = [for n in ["a"] : library[n]]
}
