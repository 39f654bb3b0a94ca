# A device function in another file: a call, or inlined by LTO.

variable "lto" {
  type        = bool
  default     = true
  description = "Optimise across files at the device link."
}

profile "dev" { # quick links while editing
  lto = false
}

defaults {
  code = ["sm_80", "sm_90"]
  mode = var.lto ? "lto" : "rdc"
}

executable "app" {
  sources = ["src/main.cu", "src/blend.cu"]
}
