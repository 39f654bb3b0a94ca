package term

import (
	"bytes"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
)

// Mode is how progress is shown.
type Mode string

// The modes of --progress. Auto is TTY on a terminal that can move its cursor and is none of a CI
// system, else Plain.
const (
	Auto  Mode = "auto"
	TTY   Mode = "tty"
	Plain Mode = "plain"
	None  Mode = "none" // failures, output of commands and the summary only
)

// resolve settles Auto. A dumb terminal cannot redraw, whatever was asked for.
func (m Mode) resolve(isTerminal bool, env func(string) string) Mode {
	switch {
	case m == TTY && env("TERM") == "dumb":
		return Plain
	case m != Auto && m != "":
		return m
	case isTerminal && env("TERM") != "dumb":
		return TTY
	}
	return Plain
}

// Color decides on colour: --color first, then NO_COLOR (https://no-color.org), then CLICOLOR_FORCE
// and CLICOLOR, of which 0 is no (https://bixense.com/clicolors), then whether a terminal is there.
// Diagnostics use it too.
func Color(flag string, isTerminal bool, env func(string) string) bool {
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	if env("NO_COLOR") != "" {
		return false
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return isTerminal && env("CLICOLOR") != "0" && env("TERM") != "dumb"
}

// InCI reports a log of a CI system: some give builds a terminal that nobody sits at.
func InCI(env func(string) string) bool {
	v := env("CI")
	return v != "" && v != "0" && v != "false"
}

// IsTerminal reports whether w is a file that is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

type ink string

const (
	bold  ink = "\x1b[1m"
	dim   ink = "\x1b[2m"
	red   ink = "\x1b[1;31m"
	reset     = "\x1b[0m"
)

func (p *Progress) ink(i ink, s string) string {
	if !p.color || s == "" {
		return s
	}
	return string(i) + s + reset
}

// commandOutput prepares what a command said: whole lines, and no escape sequences where colour is
// not wanted (logs, pipes). A carriage return would overwrite what stands before it.
func commandOutput(out []byte, color bool) []byte {
	if !color {
		out = messages.Escapes().ReplaceAll(out, nil)
	}
	out = bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n"))
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(bytes.Clone(out), '\n')
	}
	return out
}
