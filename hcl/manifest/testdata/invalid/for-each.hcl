executable "perf" {
  for_each = ["copy", "scale", "copy", "a/b"]
  sources  = ["src/main.cpp"]
  defines  = { A = each.name }
}

executable "none" {
  for_each = []
  sources  = ["src/main.cpp"]
}

executable "itself" {
  for_each = [each.key]
  sources  = ["src/main.cpp"]
}

executable "plain" {
  sources = ["src/${each.key}.cpp"]
}

executable "loop" {
  for_each = ["a"]
  sources  = ["src/main.cpp"]
  deps     = [generate.made]
}

generate "made" {
  command = ["build/bin/a"]
  outputs = ["x.h"]
  deps    = [executable.loop["a"]]
}

test "all" {
  executable = executable.perf
}

test "missing" {
  executable = executable.perf["scal"]
}

library "u" {
  sources = ["src/util.c"]
  deps    = [executable.perf["none"]]
  defines = { B = join("", executable.loop.sources) }
}

locals {
  key = "scal"
}

test "computed" {
  executable = executable.loop[local.key]
}

library "several" {
  for_each = { a = 1 }
  sources  = ["src/util.c"]
  deps     = [library.several[each.key], library.several["b"]]
}

prebuilt "p" {
  for_each = ["a"]
  archive  = "third_party/libspectra.a"
}

executable "unknown" {
  for_each = ["a", nope]
  sources  = ["src/main.cpp"]
}

test "unknown" {
  executable = executable.unknown["a"]
}

library "computed" {
  sources = ["src/util.c"]
  deps    = [for k in ["a"] : executable.unknown[k]]
}
