library "a" {
  sources = ["src/a.cu"]

  defines {
    A = 1
  }
}

module "m" {
  sources = ["src/a.cu"]
  embed   = { symbol = "m" }
}
