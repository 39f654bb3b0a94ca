//go:build !linux || !(amd64 || arm64)

package trace

import "errors"

// Changed always returns an error: this platform has no scan, so every run must check everything.
func (t *Trace) Changed(string) ([]int, error) { return nil, errors.ErrUnsupported }
