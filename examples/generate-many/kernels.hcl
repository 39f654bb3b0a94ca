# A script writes a source for each operation and type; which ones, it decides itself.

generate "reduce" {
  command = ["sh", "tools/reduce.sh", self.dir]
  inputs  = ["tools/reduce.sh"]
  outputs = ["*.cu", "reduce.h"]
}

library "reduce" {
  sources = [for f in generate.reduce.outputs : f if endswith(f, ".cu")]
  code    = ["sm_80", "sm_90"]
  deps    = [generate.reduce]
}

executable "reduce" {
  sources = ["src/main.cu"]
  code    = ["sm_80", "sm_90"]
  deps    = [library.reduce, generate.reduce]
}
