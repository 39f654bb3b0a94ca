library "lib" {
  for_each = ["copy", "scale"]
  sources  = ["src/solver.cu"]
}

executable "app" {
  sources = ["src/solver.cu"]
  deps    = [for n in ["copy", "scael"] : library.lib[n]]
}
