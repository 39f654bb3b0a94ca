package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// jobsFlag is the value of -j. 0 means that -j is not given.
type jobsFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *jobsFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of processes; write 1 or more, or leave -j out for one for each processor", text)
	}
	*j = jobsFlag(n)
	return nil
}

// failuresFlag is the value of -k. 0 means no limit.
type failuresFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *failuresFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of failures; write 1 or more, or 0 to go on whatever fails", text)
	}
	*k = failuresFlag(n)
	return nil
}

// loadFlag is the value of -l. 0 means no limit, as in ninja.
type loadFlag float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *loadFlag) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%q is not a load average; write a number such as 3.5", text)
	}
	*l = loadFlag(n)
	return nil
}

// sizeFlag is a size in bytes, or a share of the available total. The zero sizeFlag means all of
// it.
type sizeFlag struct {
	bytes int64
	share float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *sizeFlag) UnmarshalText(text []byte) error {
	s := string(text)
	percent, isShare := strings.CutSuffix(s, "%")
	if isShare {
		n, err := strconv.ParseFloat(percent, 64)
		*m = sizeFlag{share: n / 100}
		if err == nil && n > 0 && n <= 1000 {
			return nil
		}
	} else if n, err := manifest.ParseSize(s); err == nil && n > 0 {
		*m = sizeFlag{bytes: n}
		return nil
	}
	return fmt.Errorf(`%q is not a size; write for example 8GiB, 512MiB, a number of bytes, or 50%% of what there is`, s)
}

// memFlag is the value of --mem. It rejects sizes that no compiler can work with, and shares over
// 100%.
type memFlag struct{ sizeFlag }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memFlag) UnmarshalText(text []byte) error {
	if err := m.sizeFlag.UnmarshalText(text); err != nil {
		return err
	}
	switch {
	case m.share > 1:
		return fmt.Errorf("%s is more than there is; write at most 100%%, or a size such as 8GiB", text)
	case m.share == 0 && m.bytes < 1<<20:
		return fmt.Errorf("%s is %d bytes, too little for any compiler; write for example 8GiB", text, m.bytes)
	}
	return nil
}

// budget returns the size in bytes, given the available total. 0 means unknown.
func (m sizeFlag) budget(there int64) int64 {
	switch {
	case m.bytes > 0:
		return m.bytes
	case m.share > 0 && there > 0:
		return max(1, int64(m.share*float64(there)))
	}
	return there
}
