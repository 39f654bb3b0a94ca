# arch: sm80,lto_80,gfx
gencode "g" {
  code = ["sm_80"]
}

