package term

import (
	"bytes"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
)

// Mode selects how progress is shown.
type Mode string

// The values of --progress. Auto means TTY on a terminal that can move its cursor, outside CI
// systems. Otherwise it means Plain.
const (
	Auto  Mode = "auto"
	TTY   Mode = "tty"
	Plain Mode = "plain"
	None  Mode = "none" // failures, output of commands and the summary only
)

// resolve replaces Auto by a concrete mode. A dumb terminal cannot redraw, so TTY becomes Plain
// there.
func (m Mode) resolve(isTerminal bool) Mode {
	switch {
	case m == TTY && os.Getenv("TERM") == "dumb":
		return Plain
	case m != Auto && m != "":
		return m
	case isTerminal && os.Getenv("TERM") != "dumb":
		return TTY
	}
	return Plain
}

// Color reports whether to use colour. --color comes first, then NO_COLOR (https://no-color.org),
// then CLICOLOR_FORCE and CLICOLOR (https://bixense.com/clicolors), then whether the output is a
// terminal.
func Color(flag string, isTerminal bool) bool {
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return isTerminal && os.Getenv("CLICOLOR") != "0" && os.Getenv("TERM") != "dumb"
}

// InCI reports whether a CI system runs kbuild. Some of them provide a terminal that nobody
// watches.
func InCI() bool {
	v := os.Getenv("CI")
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

// commandOutput converts a command's output into whole lines. Without color it removes escape
// sequences. It normalizes line ends, since a carriage return overwrites the text before it.
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
