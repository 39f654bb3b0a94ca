module "a" {
  sources = ["src/gemm.cu"]
  emit    = ["cubn", "ptx"]

  embed {
    symbol = "a-b"
  }

  embed {
    symbol = "c"
  }
}

module "b" {
  sources = ["src/gemm.cu"]

  embed {
  }
}
