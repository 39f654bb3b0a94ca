package main

import (
	"fmt"
	"io"
)

// output is standard output. It carries what was asked for, so what could not be written of it is a failure, whoever wrote it and whether
// or not he looked. A reader that went away, as behind `| head`, is none: SIGPIPE ends kbuild then, as it ends other programs.
type output struct {
	to  io.Writer
	err error // of the first write that failed
}

// outputError is an error of standard output.
type outputError struct{ err error }

func (e outputError) Error() string { return "writing to standard output: " + e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.to.Write(p)
	if err != nil {
		o.err = outputError{err}
		return n, o.err
	}
	return n, nil
}

// settle is the exit status of a command that would have ended with status.
func (o *output) settle(stderr io.Writer, status int) int {
	if o.err == nil {
		return status
	}
	fmt.Fprintf(stderr, "kbuild: %v\n", o.err)
	if status == 0 {
		return exitFailed
	}
	return status
}
