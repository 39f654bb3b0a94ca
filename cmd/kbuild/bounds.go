package main

import (
	"fmt"
	"math"
	"strconv"
)

// jobsFlag is -j. 0, which is no number of processes, is what it is where it was not given.
type jobsFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *jobsFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of processes; write 1 or more, or leave -j out for one for each processor", text)
	}
	*j = jobsFlag(n)
	return nil
}

// failuresFlag is -k.
type failuresFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *failuresFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of failures; write 1 or more, or 0 to go on whatever fails", text)
	}
	*k = failuresFlag(n)
	return nil
}

// loadFlag is -l. 0 is no limit, as in ninja.
type loadFlag float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *loadFlag) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%q is no load average; write a number such as 3.5", text)
	}
	*l = loadFlag(n)
	return nil
}
