package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// The list of commands in docs/commands.md is what kong knows of them.
func TestReference(t *testing.T) {
	const file, mark = "../../docs/commands.md", " -run Reference -update`. -->\n\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, list, found := bytes.Cut(text, []byte(mark))
	if !found {
		t.Fatalf("%s has no %q", file, mark)
	}
	l := commandLine{cli: &cli{out: &term.Output{To: io.Discard}, err: io.Discard}}
	var want bytes.Buffer
	p := &markdown{w: &want}
	reference.Commands(p, l.parser().Model)
	p.gap()
	if *updateScripts {
		list = want.Bytes()
		if err := os.WriteFile(file, append(append(head, mark...), list...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(list), want.String()); diff != "" {
		t.Errorf("%s is not of this command line (-page +model; -update rewrites it):\n%s", file, diff)
	}
}

// docs/manifest.md is what the schema says.
func TestReferenceOfManifests(t *testing.T) {
	const file = "../../docs/manifest.md"
	var want bytes.Buffer
	io.WriteString(&want, "<!-- Written from hcl/manifest/schema*.go by `go test ./cmd/kbuild -run Reference -update`. Edit those. -->\n\n")
	p := &markdown{w: &want}
	p.Section(1, "kernels.hcl: blocks and attributes")
	p.Text("`kbuild explain NAME` prints the entry of a block or attribute. How values, device code, device links, flags, generated files " +
		"and modules work is in [language.md](language.md).")
	p.Text("`kbuild schema` prints a JSON schema (draft 2020-12) of the structure in the JSON syntax of HCL, as `hcl2json kernels.hcl` " +
		"writes it: for editors of files in that form, and for tools that write or check manifests. kbuild reads the native syntax alone.")
	reference.Manifest(p)
	p.gap()
	if *updateScripts {
		if err := os.WriteFile(file, want.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), want.String()); diff != "" {
		t.Errorf("%s is not of this schema (-page +schema; -update rewrites it):\n%s", file, diff)
	}
}

// markdown is a page of docs/.
type markdown struct {
	w     io.Writer
	items bool // the last element was an item
}

func (m *markdown) gap() {
	if m.items {
		fmt.Fprintln(m.w)
	}
	m.items = false
}

func (m *markdown) Section(level int, title string) {
	m.gap()
	fmt.Fprintf(m.w, "%s %s\n\n", strings.Repeat("#", level), title)
}

func (m *markdown) Text(s string) {
	m.gap()
	fmt.Fprintf(m.w, "%s\n\n", s)
}

func (m *markdown) Code(s string) {
	m.gap()
	fmt.Fprintf(m.w, "```hcl\n%s\n```\n\n", s)
}

func (m *markdown) Item(term, s string) {
	m.items = true
	fmt.Fprintf(m.w, "- %s: %s\n", term, s)
}

func (m *markdown) See(where string) { m.Item("more", "["+where+"]("+where+")") }
