group "default" {
  targets = [executable.bensh, gencode.g]
}

group "loop" {
  targets = [group.loop]
}

executable "bench" {
  sources = ["src/main.cpp"]
}

gencode "g" {
  code = ["sm_80"]
}

