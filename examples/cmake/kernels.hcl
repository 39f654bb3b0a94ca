# A static library that is device-linked by itself, so that any linker can use it.

library "scale" {
  sources        = ["scale.cu", "factor.cu"]
  public_headers = ["scale.h"]
  code           = ["sm_80", "sm_90"]
  mode           = "lto"
  device_link    = true
}
