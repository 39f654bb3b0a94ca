package {
  name        = "my package"
  version     = "1.4-rc"
  description = "two\nlines"
}

library "static" {
  sources        = ["src/a.cu"]
  soversion      = "1"
  public_headers = ["include", "include/none.h", ""]
}

library "shared" {
  sources   = ["src/a.cu"]
  type      = "shared"
  soversion = "one"
}

generate "tables" {
  command = ["python3", "tools/tables.py", self.outputs[0]]
  outputs = ["tables.h"]
}

library "generated" {
  sources        = ["src/a.cu"]
  public_headers = generate.tables.outputs
}

library "twice" {
  sources        = ["src/a.cu"]
  includes       = ["src"]
  public_headers = ["src/main.cpp", "bench/main.cpp"]
}

library "unnamed" {
  sources = ["src/a.cu"]
  deps    = [package.x]
}
