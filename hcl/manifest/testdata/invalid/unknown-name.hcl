gencode "g" {
  code = [sm_80]
}

locals {
  a = variable.x
  b = vars.x
  c = each.key
}
