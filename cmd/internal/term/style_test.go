package term

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModes(t *testing.T) {
	for _, tc := range []struct {
		mode     Mode
		terminal bool
		env      string
		want     Mode
	}{
		{mode: Auto, terminal: true, env: "TERM=xterm", want: TTY},
		{mode: "", terminal: true, env: "TERM=xterm", want: TTY},
		{mode: Auto, terminal: false, env: "TERM=xterm", want: Plain},
		{mode: Auto, terminal: true, env: "TERM=dumb", want: Plain},
		{mode: TTY, terminal: true, env: "TERM=dumb", want: Plain},
		{mode: TTY, terminal: false, env: "TERM=xterm", want: TTY},
		{mode: None, terminal: true, env: "TERM=xterm", want: None},
	} {
		environment(t, tc.env)
		if got := tc.mode.resolve(tc.terminal); got != tc.want {
			t.Errorf("%q, terminal %v, %s: %q, want %q", tc.mode, tc.terminal, tc.env, got, tc.want)
		}
	}
}

func TestColor(t *testing.T) {
	for _, tc := range []struct {
		flag     string
		terminal bool
		env      []string
		want     bool
	}{
		{flag: "auto", terminal: true, want: true},
		{flag: "", terminal: false, want: false},
		{flag: "auto", terminal: true, env: []string{"NO_COLOR=1"}, want: false},
		{flag: "always", env: []string{"NO_COLOR=1"}, want: true},
		{flag: "never", terminal: true, env: []string{"CLICOLOR_FORCE=1"}, want: false},
		{flag: "auto", env: []string{"CLICOLOR_FORCE=1"}, want: true},
		{flag: "auto", env: []string{"CLICOLOR_FORCE=0"}, want: false},
		{flag: "auto", env: []string{"CLICOLOR_FORCE=1", "NO_COLOR=1"}, want: false},
		{flag: "auto", terminal: true, env: []string{"CLICOLOR_FORCE=0"}, want: true},
		{flag: "auto", terminal: true, env: []string{"CLICOLOR=0"}, want: false},
		{flag: "auto", terminal: true, env: []string{"CLICOLOR=1"}, want: true},
		{flag: "auto", env: []string{"CLICOLOR=1"}, want: false},
		{flag: "auto", env: []string{"CLICOLOR=0", "CLICOLOR_FORCE=1"}, want: true},
		{flag: "always", terminal: true, env: []string{"CLICOLOR=0"}, want: true},
		{flag: "auto", terminal: true, env: []string{"TERM=dumb"}, want: false},
	} {
		environment(t, tc.env...)
		if got := Color(tc.flag, tc.terminal); got != tc.want {
			t.Errorf("--color=%s, terminal %v, %v: %v, want %v", tc.flag, tc.terminal, tc.env, got, tc.want)
		}
	}
}

func TestCommandOutput(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "",
		"a":                                      "a\n",
		"a\r\nb\n":                               "a\nb\n",
		"\x1b[1;31merror\x1b[0m \x1b[Kx\n":       "error x\n",
		"\x1b]8;;http://x\x07link\x1b]8;;\x07\n": "link\n",
	} {
		if got := string(commandOutput([]byte(in), false)); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := string(commandOutput([]byte("\x1b[1mx"), true)); got != "\x1b[1mx\n" {
		t.Errorf("with colour: %q", got)
	}
}

// TestShellQuote lets a real shell read the words back.
func TestShellQuote(t *testing.T) {
	argv := []string{"printf", "%s\\0", "", "plain", "-DX=\"a b\"", "it's", "$HOME", "`id`", "a\\b", "*", "~", "größe 矢量", "-gencode=arch=compute_80,code=[sm_80,lto_80]", "line\nbreak", "!", "a;b&c|d", "#", "nb\u00a0sp", "{a,b}"}
	out, err := exec.Command("sh", "-c", ShellQuote(argv)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(argv[2:], strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
		t.Errorf("%s\n(-want +got):\n%s", ShellQuote(argv), diff)
	}
	if got, want := ShellQuote([]string{"nvcc", "-dc", "-o", "build/a.o", "src/a.cu"}), "nvcc -dc -o build/a.o src/a.cu"; got != want {
		t.Errorf("quotes without need: %s", got)
	}
}

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ in, text, name string }{
		{"plain größe 矢量", "plain größe 矢量", "plain größe 矢量"},
		{"a\nb\tc", "a\nb\tc", `a\nb\x09c`},
		{"\x1b[2J\x07\r", `\x1b[2J\x07\x0d`, `\x1b[2J\x07\x0d`},
		{"\u009b2J\x7f", `\x9b2J\x7f`, `\x9b2J\x7f`},
		{"\xff\x9b\ufffd", "\\xff\\x9b\ufffd", "\\xff\\x9b\ufffd"},
	} {
		if text, name := Visible(tc.in), Name(tc.in); text != tc.text || name != tc.name {
			t.Errorf("%q is %q and %q as a name, want %q and %q", tc.in, text, name, tc.text, tc.name)
		}
	}
}
