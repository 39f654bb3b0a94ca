package main

import (
	"bytes"
	"io"
	"os"
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
	reference.CommandList(&want, l.parser().Model)
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
