library "a" {
  sources = glob("src/solver/*.cu")

  partition "sort" {
    match = ["src/solver/sort_*.cu"]
    mode  = "rdc"
  }

  partition "keys" {
    match = ["src/solver/*_keys.cu"]
    mode  = "whole"
  }

  partition "keys" {
    match = ["src/solver/cg.cu"]
  }
}
