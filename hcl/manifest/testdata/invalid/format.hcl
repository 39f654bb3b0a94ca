library "a" {
  sources = ["bench/main.cpp"]
  defines = {
    A = format("%d", "a")
    B = format("%d", 1.5)
    E = format("%f", 1 / 0)
    G = format("%s %s", "a")
    H = format("%[2]d", 1)
    I = format("%t", 1)
  }
}
