library "a" {
  sources = ["src/a.cu"]
}

library "a" {
  sources = ["src/b.cu"]
}

defaults {
}

defaults {
}

library "A" {
  sources = ["src/b.cu"]
}

locals {
  x = 1
}

locals {
  x = 2
}
