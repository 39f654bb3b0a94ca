package execute

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

func TestDiffFields(t *testing.T) {
	fields := func(text string) (out []cache.Field) {
		for f := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(f, "=")
			out = append(out, cache.Field{Name: strings.ReplaceAll(name, "_", " "), Value: value})
		}
		return out
	}
	for _, c := range []struct{ old, now, want string }{
		{"kind=a arg=-O2 arg=-g env=A env=B", "kind=a arg=-O2 arg=-g env=A env=B", ""},
		{"arg=-O2 arg=-g", "arg=-O3 arg=-g arg=-g", "argument added: -O3; argument added: -g; argument removed: -O2"},
		{"arg=-a arg=-b", "arg=-b arg=-a", "arguments in another order"},
		{"env=A env=B", "env=A", `env was "A B", is "A"`},
		{"input_a.cu=1 tool_nvcc=1 program=1", "input_a.cu=2 tool_nvcc=2 program=2", "a.cu changed; the tools of nvcc changed; the program it runs changed"},
		{"input_a.cu=1 folder=/a", "input_b.cu=1 stage=/b", "new: input b.cu; new: stage /b; no longer: input a.cu; no longer: folder /a"},
	} {
		if got := strings.Join(diffFields(fields(c.old), fields(c.now)), "; "); got != c.want {
			t.Errorf("%s to %s:\n %s\nwant %s", c.old, c.now, got, c.want)
		}
	}
}
