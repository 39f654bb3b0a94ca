# A static library of LTO-IR, and a package of CMake that has the device links of other projects optimise it together with their own code.

package {
  name        = "poly"
  version     = "1.0.0"
  description = "Polynomials on the GPU."
}

library "poly" {
  sources        = glob("src/*.cu")
  includes       = ["include"]
  public_headers = glob("include/**/*.cuh")
  code           = ["sm_80", "sm_90"]
  mode           = "lto"
}
