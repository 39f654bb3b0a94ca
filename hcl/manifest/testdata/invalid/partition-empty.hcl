library "a" {
  sources = glob("src/solver/*.cu")

  partition "sort" {
    match   = ["src/solver/short_*.cu"]
    mod     = "rdc"
    sources = []
  }

  partition "none" {
    mode = "rdc"
  }
}
