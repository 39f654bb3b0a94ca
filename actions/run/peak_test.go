package run

import (
	"os"
	"strconv"
	"testing"
)

// A large process is seen, a small one is not taken for as large as the test, which starts it.
func TestPeak(t *testing.T) {
	if own := ownPeak(); own < 1<<20 {
		t.Fatalf("the test itself has a peak of %d bytes", own)
	}
	if res := mustRun(t, shell(t, "true")); res.MaxRSS != 0 {
		t.Errorf("a shell that does nothing has a peak of %d bytes, want 0: not seen", res.MaxRSS)
	}
	const size = 200 << 20
	c := shell(t, "")
	c.Argv = []string{os.Args[0], "-test.run=^TestPeakChild$"}
	c.Env = append(c.Env, "GROW="+strconv.Itoa(size))
	if res := mustRun(t, c); res.ExitCode != 0 || res.MaxRSS < size || res.MaxRSS > 4*size {
		t.Errorf("a process of %d bytes has a peak of %d; it ends with %d: %s", size, res.MaxRSS, res.ExitCode, res.Output)
	}
}

// TestPeakChild is the large process.
func TestPeakChild(t *testing.T) {
	size, _ := strconv.Atoi(os.Getenv("GROW"))
	b := make([]byte, size)
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}
