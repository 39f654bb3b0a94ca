toolchain "hip" {
  path = "third_party/rocm"
}
