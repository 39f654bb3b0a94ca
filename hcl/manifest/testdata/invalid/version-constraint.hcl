kbuild {
  required_version = "new"
}

toolchain "cuda" {
  version = ">= eleven"
}

toolchain "cuda11" {
}
