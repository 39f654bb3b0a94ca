# The toolkit of `make demo` on a machine that has none.

toolchain "cuda" {
  version = "13.5.0"
  from    = "pypi"
  parts   = ["cuobjdump", "nvdisasm"] # the demo looks into the program
}
