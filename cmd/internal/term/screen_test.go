package term

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is shown is replaced, and never takes more than the terminal has.
func TestScreen(t *testing.T) {
	terminal := newTerminal(t, 10)
	s := &Screen{live: live{w: terminal}}
	for _, step := range []struct{ text, want string }{
		{"one\ntwo\nthree\n", "one\ntwo\nthree"},
		{"one\n", "one"},
		{"a line that is long\nb\n", "a line t…\nb"},
		{"1\n2\n3\n4\n5\n6\n", "1\n2\n3\n…"},
	} {
		s.show(step.text, 10, 5)
		if diff := cmp.Diff(step.want, terminal.screen()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", step.text, diff)
		}
	}
}

func TestScreenOfNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if OpenScreen(r, w) != nil || OpenScreen(r, &terminal{}) != nil {
		t.Error("a pipe is taken for a terminal")
	}
}
