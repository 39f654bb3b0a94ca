//go:build !linux || !(amd64 || arm64)

package snapshot

import "errors"

// Open finds none: every run looks at everything.
func Open(string) (*Snapshot, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (s *Snapshot) Close() error { return nil }

// Changed is not called.
func (s *Snapshot) Changed(string) ([]int, error) { return nil, errors.ErrUnsupported }
