# Kernels as a file that the program loads when it runs.

module "scale" {
  sources = ["scale.cu"]
  code    = ["sm_80", "sm_90"]
  emit    = ["fatbin"]
}
