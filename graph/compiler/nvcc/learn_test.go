package nvcc

import (
	"os"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/compiler/compilertest"
)

// TestLearnRecorded reads recorded dry runs of every toolkit at hand.
func TestLearnRecorded(t *testing.T) {
	compilertest.Recorded(t, func(t *testing.T, file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return describe(string(text))
	})
}

func describe(text string) string {
	var b strings.Builder
	show := func(p *Pass) {
		if p == nil {
			return
		}
		b.WriteString(p.Tool + " [" + p.Arch + "]\n  " + strings.Join(p.Argv(p.Tool, func(r Role) string { return "<" + string(r) + ">" })[1:], "\n  ") + "\n")
	}
	if strings.Contains(text, "nvlink ") {
		l, err := LearnLink(text)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		for _, p := range l.NVLink {
			show(p)
		}
		show(l.Fatbinary)
		show(l.Host)
		return b.String() + l.Said
	}
	c, err := LearnCompile(text)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, p := range c.CICC {
		show(c.Preprocess[p.Arch])
		show(p)
	}
	for _, p := range c.Checks {
		b.WriteString("check, lets " + string(p.In[0]) + " pass as " + string(p.Out[0]) + ": ")
		show(p)
	}
	for _, p := range c.PTXAS {
		show(p)
	}
	show(c.Fatbinary)
	show(c.Preprocess["host"])
	show(c.Cudafe)
	show(c.Host)
	return b.String() + "primary " + c.Primary + "\n" + c.Said
}
