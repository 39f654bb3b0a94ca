# A header made by a script, used by a kernel.

variable "size" {
  type    = number
  default = 16

  validation {
    condition     = var.size > 0 && var.size <= 1024
    error_message = "The table has 1 to 1024 entries."
  }
}

generate "squares" {
  command = ["sh", "tools/squares.sh", tostring(var.size), self.outputs[0]]
  inputs  = ["tools/squares.sh"]
  outputs = ["squares.cuh"]
}

executable "lookup" {
  sources = ["src/lookup.cu"]
  code    = ["sm_80", "sm_90"]
  deps    = [generate.squares]
}
