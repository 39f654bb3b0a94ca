package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What the reference says that an attribute becomes stands in the plan of its example: each
// `-option` before the first semicolon.
func TestBecomes(t *testing.T) {
	option, planned := regexp.MustCompile("`(-[^`]*)`"), map[string]bool{}
	for _, kind := range []string{"executable", "library", "module"} {
		b := manifest.Schema().Block(kind)
		for _, a := range b.Attributes {
			for _, a := range append([]manifest.Attribute{a}, a.Keys...) {
				if planned[a.Name] || a.Becomes == "" {
					continue
				}
				planned[a.Name] = true
				becomes, _, _ := strings.Cut(a.Becomes, ";")
				argv := planOfExample(t, kind, a)
				for _, m := range option.FindAllStringSubmatch(becomes, -1) {
					if !strings.Contains(argv, m[1]) {
						t.Errorf("%s.%s: no %s in\n%s", kind, a.Name, m[1], argv)
					}
				}
			}
		}
	}
}

// planOfExample gives the command lines of a target with nothing else but what an example needs.
func planOfExample(t *testing.T, kind string, a manifest.Attribute) string {
	t.Helper()
	sources := `["a.cu", "b.cpp", "c.c"]`
	if kind == "module" {
		sources = `["a.cu"]`
	}
	text := kind + " \"x\" {\n" + a.Example + "\n"
	for line, unless := range map[string]string{
		"sources = " + sources: "sources", `mode = "rdc"`: "mode split type strip_unused host_lto", `code = ["sm_80"]`: "code gencode",
	} {
		if !strings.Contains(" "+unless+" ", " "+a.Name+" ") {
			text += line + "\n"
		}
	}
	if a.Name == "soversion" {
		text += "type = \"shared\"\n"
	}
	text += "}\n"
	if a.Name == "always_link" {
		text += "executable \"user\" {\nsources = [\"b.cpp\"]\ndeps = [library.x]\n}\n"
	}
	text += `
gencode "server" { code = ["sm_80"] }
library "solver" {
  sources  = ["src/a.cu"]
  code     = ["sm_80"]
  includes = ["include"]
}
`
	dir := t.TempDir()
	for name, text := range map[string]string{"kernels.hcl": text, "a.cu": "", "b.cpp": "", "c.c": "", "src/a.cu": "", "src/main.cpp": ""} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p, diags := manifest.Load(manifest.Options{Dir: dir})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var b strings.Builder
	facts := usualFacts()
	const gcc = `{"CXX": {"path": "g++", "version": "12.2.0", "family": "gcc"}, "CC": {"path": "gcc", "version": "12.2.0", "family": "gcc"}}`
	if err := json.Unmarshal([]byte(gcc), &facts); err != nil {
		t.Fatal(err)
	}
	made := plan.New(p, facts, plan.Options{})
	if made.Graph == nil {
		t.Errorf("%s.%s: %v", kind, a.Name, made.Diagnostics)
		return ""
	}
	for _, action := range made.Graph.Actions {
		b.WriteString(strings.Join(action.Argv, " ") + "\n")
	}
	return b.String()
}
