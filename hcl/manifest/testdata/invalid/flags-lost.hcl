library "a" {
  sources = ["src/a.cu"]

  flags = { nvcc = ["-time", "t.csv", "--fdevice-time-trace-granularity=100", "--prune"] }
}

library "modules" {
  sources = ["src/a.cppm"]

  flags = { host = ["-std=c++20", "-fmodules-ts"], nvcc = ["-Xcompiler=-fmodule-mapper=m"] }
}
