library "solver" {
  sources = ["src/a.cu"]
}

executable "app" {
  sources = ["src/main.cpp"]
  deps    = [library.slover, prebuilt.solver]
}
