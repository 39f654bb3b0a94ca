package term

import (
	"bytes"
	"encoding/json"
	"io"
)

// Output is standard output. It carries the results of a command, so a failed write is a failure of
// the command. The error is kept even if the writing code ignores it. A reader that closes the
// pipe, such as `| head`, is not an error: SIGPIPE ends kbuild, as it ends other programs.
//
// Control characters are escaped unless a program reads the output.
type Output struct {
	To  io.Writer
	raw bool   // a program reads the output
	cut []byte // the incomplete last line
	err error  // of the first failed write
}

// OutputError is an error of writing to standard output.
type OutputError struct{ err error }

func (e OutputError) Error() string { return "writing to standard output: " + e.err.Error() }
func (e OutputError) Unwrap() error { return e.err }

// Raw switches the output to bytes that are not text.
func (o *Output) Raw() *Output {
	o.raw = true
	return o
}

// Paths switches the output to paths, one per line. They are escaped only on a terminal.
func (o *Output) Paths() *Output {
	o.raw = o.raw || !IsTerminal(o.To)
	return o
}

// Event writes an object as one line of JSON.
func (o *Output) Event(v any) error {
	enc := json.NewEncoder(o)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Write implements io.Writer. It writes only complete lines of text, because a multi-byte character
// may be split over two calls.
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

// Close writes the incomplete last line. It returns the error of the first failed write.
func (o *Output) Close() error { return o.write(o.cut) }
