locals {
  large = 1e999
  small = -1e-999
  never = true ? "" : 1e400
}
