# var: archs=
variable "archs" {
  type    = list(string)
  default = ["sm_80"]

  validation {
    condition     = length(var.archs) > 0
    error_message = "Ship code for at least one architecture."
  }

  validation {
    condition     = "yes"
    error_message = "Never."
  }
}
