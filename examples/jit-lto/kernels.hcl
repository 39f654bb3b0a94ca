# A kernel and the functions that it may call, as LTO-IR: the program links the two that it wants when it runs.

gencode "jit" {
  code = ["lto_75"] # one IR for every GPU from 7.5 on: the linker at run time makes the machine code
}

defaults {
  gencode  = gencode.jit
  std      = "c++17"
  includes = ["src"]
}

module "transform" {
  sources = ["src/transform.cu"]
  emit    = ["ltoir", "fatbin"]

  late_bound = ["callback"] # of one of the modules below: the program says which

  embed {
    symbol = "transform_code"
  }
}

module "callbacks" {
  sources = ["src/callbacks/${matrix.op}.cu"]
  emit    = ["ltoir", "fatbin"]

  matrix = {
    op = ["square", "relu", "gelu"]
  }

  embed {
    symbol = "callback_code"
  }
}

executable "transform" {
  sources = ["src/main.cpp", "src/linker.cpp", "src/driver.cpp", "src/cubin.cpp"]
  deps    = [module.transform, module.callbacks]
  libs    = ["dl"]
}
