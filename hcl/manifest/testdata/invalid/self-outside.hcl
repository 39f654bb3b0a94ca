library "a" {
  sources = [self.outputs[0]]
}

locals {
  a = matrix.x
}
