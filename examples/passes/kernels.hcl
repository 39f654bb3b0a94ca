# What an edit runs when nvcc is split into passes, by architecture.

gencode "gpus" {
  code      = ["sm_80", "sm_90"]
  arch_list = ["sm_80", "sm_86", "sm_90"] # what CUB spells into its namespace, also in builds for fewer
}

defaults {
  gencode = gencode.gpus
  mode    = "lto"
}

executable "app" {
  sources = ["src/main.cu", "src/sum.cu"]
}
