library "a" {
  sources       = ["src/a.cu"]
  mode          = "LTO"
  std           = "17"
  type          = "dynamic"
  cudart        = "statik"
  opt           = 4
  max_registers = 300
  memory        = "4 gigs"
  fast_math     = "yes"
  language      = "cpp"
}
