locals {
  a = [1, 2][5]
  b = "x" + 1
  c = { k = 1 }.kk
  d = "${[1]}"
  e = element([], 0)
}
