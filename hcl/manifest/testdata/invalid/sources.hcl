library "a" {
  sources = ["src/aa.cu", "src", "include/solver.h", "src/odd.txt", "src/*.cu", "build/gen/x/made.cu", "tables.cu", ""]
  deps    = [generate.t]
}

generate "t" {
  command = ["true"]
  outputs = ["tables.cu"]
}

library "none" {
}

library "empty" {
  sources = [for f in ["a.cu"] : f if false]
}
