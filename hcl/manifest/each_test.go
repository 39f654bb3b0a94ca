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
