generate "a" {
  command = []
  inputs  = ["tools/table.py"]
  outputs = ["../a.h", "/tmp/b.h", ".", "c.h", "./c.h"]
}

generate "b" {
  command = ["x", self.output]
}

generate "c" {
  command = ["x"]
  outputs = [self.name]
}
