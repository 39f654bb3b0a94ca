library "headers" {
  sources          = []
  type             = "shared"
  private_includes = ["src"]
  mode             = "lto"

  partition "p" {
    match = ["a.cu"]
  }
}

executable "app" {
  sources = []
}

module "m" {
  sources = []
}
