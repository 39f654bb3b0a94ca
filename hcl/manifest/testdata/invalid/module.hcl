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

module "c" {
  sources = ["src/gemm.cu"]

  embed {
    symbol = "register"
  }
}

module "d" {
  sources = ["src/gemm.cu"]

  embed {
    symbol = "string"
  }
}
