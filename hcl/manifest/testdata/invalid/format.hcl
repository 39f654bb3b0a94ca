library "a" {
  sources = ["bench/main.cpp"]
  defines = {
    A = format("%d", "a")
    B = format("%d", 1.5)
    C = format("%99999999999999999999d", 1)
    D = format("x%.1000000s", "a")
    E = format("%f", 1 / 0)
    F = format("%g", "-inf")
    G = format("%s %s", "a")
    H = format("%[2]d", 1)
    I = format("%t", 1)
  }
}
