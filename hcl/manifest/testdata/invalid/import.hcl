import "sub" {
  path = "sub/kernels.hcl"
}

import "" {}
