package term

import (
	"bytes"
	"encoding/json"
	"io"
)

// Output is standard output. It carries what was asked for, so what could not be written of it is a
// failure, whoever wrote it and whether or not he looked. A reader that went away, as behind `|
// head`, is none: SIGPIPE ends kbuild then, as it ends other programs.
//
// Control characters are spelled out, unless a program reads what is written.
type Output struct {
	To  io.Writer
	raw bool   // for a program
	cut []byte // of the line that is not yet whole
	err error  // of the first write that failed
}

// OutputError is an error of standard output.
type OutputError struct{ err error }

func (e OutputError) Error() string { return "writing to standard output: " + e.err.Error() }
func (e OutputError) Unwrap() error { return e.err }

// Raw is the output for bytes that are no text.
func (o *Output) Raw() *Output {
	o.raw = true
	return o
}

// Paths is the output for paths that a program may read, as they are. A person gets them spelled
// out.
func (o *Output) Paths() *Output {
	o.raw = !IsTerminal(o.To)
	return o
}

// Event writes an object of --json on a line.
func (o *Output) Event(v any) error {
	enc := json.NewEncoder(o)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Write implements io.Writer. Of text it writes whole lines, since a character may come in two
// pieces.
func (o *Output) Write(p []byte) (int, error) {
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

func (o *Output) write(text []byte) error {
	if o.err != nil || len(text) == 0 {
		return o.err
	}
	if !o.raw {
		text = []byte(Visible(string(text)))
	}
	if _, err := o.To.Write(text); err != nil {
		o.err = OutputError{err}
	}
	return o.err
}

// Close writes what is left. The error is that of the first write that failed.
func (o *Output) Close() error { return o.write(o.cut) }
