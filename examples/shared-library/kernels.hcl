# A shared library with device code over a static one, and a program that uses it.

defaults {
  code     = ["sm_80", "sm_90"]
  mode     = "lto"
  includes = ["include"]
}

library "ops" { # static: its objects are compiled with -fPIC, since a shared library takes them
  sources = ["src/ops.cu"]
}

library "vec" {
  type    = "shared"
  sources = ["src/vec.cu"]
  deps    = [library.ops]
}

executable "app" {
  sources = ["src/main.cpp"]
  deps    = [library.vec]
}
