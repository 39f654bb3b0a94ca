package manifest

import (
	"strings"
	"testing"
)

func TestForEach(t *testing.T) {
	p := load(t, `
executable "perf" {
  for_each = { all_reduce = 2, broadcast = 1 }
  sources  = ["src/main.cpp"]
  defines  = { KEY = each.key, VALUE = each.value }
}
executable "named" {
  for_each    = ["b", "a"]
  sources     = ["src/main.cpp"]
  output_name = "${each.value}_named"
}
test "one" {
  executable = executable.perf["broadcast"]
}
group "some" {
  targets = [executable.named, executable.perf["all_reduce"]]
}
`, Options{})
	var got []string
	for _, target := range p.Targets {
		words := []string{target.Label(), target.Base, target.Each, target.OutputName}
		for _, d := range target.Sources[0].Defines {
			words = append(words, *d.Value)
		}
		got = append(got, strings.Join(words, " "))
	}
	expect(t, "targets", got, []string{"executable.perf:all_reduce perf all_reduce all_reduce all_reduce 2", "executable.perf:broadcast perf broadcast broadcast broadcast 1",
		"executable.named:b named b b_named", "executable.named:a named a a_named"})
	expect(t, "test", p.Tests[0].Executable, "executable.perf:broadcast")
	expect(t, "group", []string{p.Groups[0].Targets[0].Label, p.Groups[0].Targets[1].Label}, []string{"executable.named", "executable.perf:all_reduce"})
}

// TestForEachOfOthers is for_each of libraries and tests, with keys that are computed.
func TestForEachOfOthers(t *testing.T) {
	p := load(t, `
locals {
  types = { f16 = "half", f32 = "float" }
  first = keys(local.types)[0]
}
library "ops" {
  for_each = local.types
  sources  = ["src/util.c"]
  defines  = { TYPE = each.value }
}
executable "perf" {
  for_each = local.types
  sources  = ["src/main.cpp"]
  deps     = [library.ops[each.key]]
}
executable "first" {
  sources = ["src/main.cpp"]
  deps    = concat([library.ops[local.first]], [for k, v in local.types : executable.perf[k] if v == "float"])
}
executable "all" {
  sources = ["src/main.cpp"]
  deps    = [library.ops]
}
test "perf" {
  for_each   = local.types
  executable = executable.perf[each.key]
  args       = [each.value]
}
`, Options{})
	var got []string
	for _, target := range p.Targets {
		words := []string{target.Label(), target.OutputName}
		for _, d := range target.Deps {
			words = append(words, d.Label)
		}
		got = append(got, strings.Join(words, " "))
	}
	expect(t, "targets", got, []string{"library.ops:f16 f16", "library.ops:f32 f32", "executable.perf:f16 f16 library.ops:f16", "executable.perf:f32 f32 library.ops:f32",
		"executable.first first library.ops:f16 executable.perf:f32", "executable.all all library.ops"})
	got = nil
	for _, x := range p.Tests {
		got = append(got, x.Name+" "+x.Executable+" "+x.Args[0])
	}
	expect(t, "tests", got, []string{"perf:f16 executable.perf:f16 half", "perf:f32 executable.perf:f32 float"})
}
