package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// What is read by hand is what the parser reads, field for field.
func TestPlain(t *testing.T) {
	t.Setenv("KBUILD_CACHE_DIR", "/cache")
	for _, line := range []string{"", "-q", "-j8", "-j 8", "-C sub", "-Csub", "-q -j 2 -C a/b", "-j 1 -j 2"} {
		args := strings.Fields(line)
		byHand, ok := plain(args)
		if !ok {
			t.Errorf("%q is not read by hand", line)
			continue
		}
		byHand.out, byHand.err = io.Discard, io.Discard
		parsed := &cli{out: io.Discard, err: io.Discard}
		if _, err := parsed.parser(os.Exit).Parse(args); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if got, want := fields(byHand), fields(parsed); got != want {
			t.Errorf("%q is read by hand as\n%s\nand by the parser as\n%s", line, got, want)
		}
	}
	for _, line := range []string{"app", "graph", "--arch sm_80", "-j", "-j x", "-j=8", "-C", "-C -q", "-v", "-n", "--json", "-qj2", "-q=false", "--", "-C=a"} {
		if _, ok := plain(strings.Fields(line)); ok {
			t.Errorf("%q is read by hand", line)
		}
	}
}

// fields spells the options, not the commands.
func fields(c *cli) string {
	return fmt.Sprintf("%+v", []any{c.Dir, c.File, c.Jobs, c.Keep, c.Load, c.DryRun, c.Verbose, c.Quiet, len(c.Arch), c.Profile, len(c.Var),
		c.BuildDir, c.CacheDir, c.NoCache, c.NoSplit, len(c.KeepCode), c.JSON, c.Trace, c.Progress, c.Color})
}
