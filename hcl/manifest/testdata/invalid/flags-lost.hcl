library "a" {
  sources = ["src/a.cu"]

  flags = { nvcc = ["-time", "t.csv", "--fdevice-time-trace-granularity=100", "--prune"] }
}
