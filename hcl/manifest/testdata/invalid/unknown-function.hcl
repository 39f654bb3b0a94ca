locals {
  a = contact(["x"], ["y"])
  b = file("x")
  c = fileset(".", "*.cu")
}
