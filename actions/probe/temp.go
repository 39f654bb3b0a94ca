package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// TempError reports that temporary files cannot be created. Any tool would then fail with an
// unrelated message.
type TempError struct{ Err error }

func (e TempError) Error() string {
	why := e.Err
	if path := new(fs.PathError); errors.As(why, &path) {
		why = path.Err
	}
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return fmt.Sprintf("TMPDIR is %s, where no temporary file can be made: %v. Unset it, or name a folder that you can write.", dir, why)
	}
	return fmt.Sprintf("no temporary file can be made in %s: %v. Set TMPDIR to a folder that you can write.", os.TempDir(), why)
}

func (e TempError) Unwrap() error { return e.Err }

// makeTemp creates a folder for temporary files. The error is a TempError.
func makeTemp(pattern string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", pattern); err != nil {
		return "", TempError{err}
	}
	return dir, nil
}

// checkTemp reports whether temporary files can be created. The error is a TempError.
func checkTemp() error {
	dir, err := makeTemp("kbuild-try-")
	if err == nil {
		os.Remove(dir)
	}
	return err
}
