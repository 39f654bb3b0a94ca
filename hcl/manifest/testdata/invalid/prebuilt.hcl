prebuilt "a" {
  lto = "maybe"
}

prebuilt "b" {
  archive = "libb.a"
  shared  = "libb.so"
}
