locals {
  a = local.b
  b = [local.c]
  c = length(local.a)
}
