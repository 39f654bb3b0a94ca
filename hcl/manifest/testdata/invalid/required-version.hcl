kbuild {
  required_version = ">= 2.0"
}
