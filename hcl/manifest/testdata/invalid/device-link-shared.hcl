library "a" {
  sources     = ["src/a.cu"]
  type        = "shared"
  device_link = true
}
