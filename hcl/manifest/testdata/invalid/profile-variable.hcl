variable "archs" {
  default = ["sm_80"]
}

profile "dev" {
  arch = ["native"]
}
