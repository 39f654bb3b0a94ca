# Its code is that of the manifest above.

library "kernels" {
  sources  = glob("*.cu")
  includes = ["."]
  deps     = [library["//fill/kernels"]]
}
