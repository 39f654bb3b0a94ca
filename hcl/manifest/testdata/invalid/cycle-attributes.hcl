library "a" {
  sources = library.b.sources
}

library "b" {
  sources = library.a.sources
}
