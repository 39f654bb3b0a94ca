package nvcc

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain/dryruntest"
)

// TestLearnRecorded reads recorded dry runs of every toolkit at hand.
func TestLearnRecorded(t *testing.T) {
	dryruntest.Recorded(t, func(t *testing.T, file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return describe(string(text))
	})
}

func describe(text string) string {
	if strings.Contains(text, "nvlink ") {
		l, err := LearnLink(text)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return strings.Join(linkPasses(l), "") + l.Said
	}
	c, err := LearnCompile(text)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return strings.Join(compilePasses(c), "") + "primary " + c.Primary + "\n" + c.Said
}

// linkPasses and compilePasses show passes with roles in place of files.
func linkPasses(l *LinkPasses) (out []string) {
	for _, p := range append(slices.Clone(l.NVLink), l.Fatbinary, l.Host) {
		out = append(out, shown(p)...)
	}
	return out
}

func compilePasses(c *CompilePasses) (out []string) {
	for _, p := range c.CICC {
		out = append(append(out, shown(c.Preprocess[p.Arch])...), shown(p)...)
	}
	for _, p := range c.Checks {
		out = append(out, "check, lets "+string(p.In[0])+" pass as "+string(p.Out[0])+": "+shown(p)[0])
	}
	for _, p := range slices.Concat(c.PTXAS, []*Pass{c.Fatbinary}, c.TileIRAS, []*Pass{c.TileFatbin, c.Preprocess["host"], c.Cudafe, c.Host}) {
		out = append(out, shown(p)...)
	}
	return out
}

// shown is nothing for a pass that is none.
func shown(p *Pass) []string {
	if p == nil {
		return nil
	}
	argv := p.Argv(p.Tool, func(r Role) string { return "<" + string(r) + ">" })[1:]
	return []string{p.Tool + " [" + p.Arch + "]\n  " + strings.Join(argv, "\n  ") + "\n"}
}
