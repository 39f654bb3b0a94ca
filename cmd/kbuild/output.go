package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// output is standard output. It carries what was asked for, so what could not be written of it is a failure, whoever wrote it and whether
// or not he looked. A reader that went away, as behind `| head`, is none: SIGPIPE ends kbuild then, as it ends other programs.
//
// Control characters are spelled out, unless a program reads what is written.
type output struct {
	to  io.Writer
	raw bool   // for a program
	cut []byte // of the line that is not yet whole
	err error  // of the first write that failed
}

// outputError is an error of standard output.
type outputError struct{ err error }

func (e outputError) Error() string { return "writing to standard output: " + e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

// Write implements io.Writer. Of text it writes whole lines, since a character may come in two pieces.
func (o *output) Write(p []byte) (int, error) {
	text := p
	if !o.raw || len(o.cut) > 0 {
		o.cut = append(o.cut, p...)
		end := bytes.LastIndexByte(o.cut, '\n') + 1
		text, o.cut = o.cut[:end:end], bytes.Clone(o.cut[end:])
	}
	if err := o.write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *output) write(text []byte) error {
	if o.err != nil || len(text) == 0 {
		return o.err
	}
	if !o.raw {
		text = []byte(term.Visible(string(text)))
	}
	if _, err := o.to.Write(text); err != nil {
		o.err = outputError{err}
	}
	return o.err
}

// settle is the exit status of a command that would have ended with status.
func (o *output) settle(stderr io.Writer, status int) int {
	o.write(o.cut)
	if o.err == nil {
		return status
	}
	fmt.Fprintf(stderr, "kbuild: %v\n", o.err)
	if status == 0 {
		return exitFailed
	}
	return status
}

// rawOut is standard output for bytes that are no text.
func (c *cli) rawOut() io.Writer {
	if o, ok := c.out.(*output); ok {
		o.raw = true
	}
	return c.out
}

// pathsOut is standard output for paths that a program may read, as they are. A person gets them spelled out.
func (c *cli) pathsOut() io.Writer {
	if o, ok := c.out.(*output); ok {
		o.raw = !term.IsTerminal(o.to)
	}
	return c.out
}

// event writes an object of --json on a line of standard output.
func (c *cli) event(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say writes a line for people to standard error.
func (c *cli) say(format string, args ...any) {
	io.WriteString(c.err, term.Visible(fmt.Sprintf(format, args...))+"\n")
}
