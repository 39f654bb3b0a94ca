package toolchain

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the wanted passes")

// TestLearnRecorded reads recorded dry runs of every toolkit at hand.
func TestLearnRecorded(t *testing.T) {
	testRecorded(t, "testdata/dryrun", func(t *testing.T, file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return describe(string(text))
	})
}

// testRecorded holds what is learned of each recording in a folder against the wanted, which stands beside it.
func testRecorded(t *testing.T, dir string, learned func(t *testing.T, file string) string) {
	files, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			got := learned(t, file)
			want := strings.TrimSuffix(file, ".txt") + ".want"
			if *update {
				os.WriteFile(want, []byte(got), 0o666)
			}
			golden, _ := os.ReadFile(want)
			if string(golden) != got {
				t.Errorf("got:\n%s\nwant (-update rewrites):\n%s", got, golden)
			}
		})
	}
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
