package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// What is read by hand is what the parser reads, field for field.
func TestPlain(t *testing.T) {
	t.Setenv("KBUILD_CACHE_DIR", "/cache")
	for _, line := range []string{"", "-q", "-j8", "-j 8", "-C sub", "-Csub", "-q -j 2 -C a/b", "-j 1 -j 2", "--mem 8GiB", "--mem=512M -q", "--mem 50%"} {
		args := strings.Fields(line)
		byHand := &cli{}
		if !byHand.plain(args) {
			t.Errorf("%q is not read by hand", line)
			continue
		}
		parsed := commandLine{cli: &cli{out: &term.Output{To: io.Discard}, err: io.Discard}}
		if _, err := parsed.parser().Parse(args); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if got, want := fields(byHand), fields(parsed.cli); got != want {
			t.Errorf("%q is read by hand as\n%s\nand by the parser as\n%s", line, got, want)
		}
	}
	for _, line := range []string{"app", "graph", "--arch sm_80", "-j", "-j x", "-j 0", "-j0", "-j=8", "-C", "-C -q", "-v", "-n", "--json", "-qj2", "-q=false", "--", "-C=a", "--mem", "--mem x", "--mem=", "--mem= 5", "--mem -q", "--memory 1", "--mem 0", "--mem 8", "--mem 200%"} {
		if (&cli{}).plain(strings.Fields(line)) {
			t.Errorf("%q is read by hand", line)
		}
	}
}

func TestShareOfMemory(t *testing.T) {
	c := &cli{}
	for _, tt := range []struct {
		mem  string
		want int64
	}{{"50%", 12 << 30}, {"8GiB", 8 << 30}} {
		if err := c.Mem.UnmarshalText([]byte(tt.mem)); err != nil {
			t.Fatal(err)
		}
		if got := c.schedule(broker.Limits{Memory: 24 << 30}).Budget; got != tt.want {
			t.Errorf("--mem %s of KBUILD_MEM=24GiB plans %d bytes, want %d", tt.mem, got, tt.want)
		}
	}
}

// fields spells the options, not the commands.
func fields(c *cli) string {
	return fmt.Sprintf("%+v", []any{c.Dir, c.File, c.Jobs, c.Mem, c.Keep, c.Load, c.DryRun, c.Verbose, c.Quiet, len(c.Arch), c.Profile, len(c.Var),
		c.BuildDir, c.CacheDir, c.NoCache, c.NoSplit, len(c.KeepCode), c.JSON, c.Trace, c.Progress, c.Color, c.Output,
		c.RemoteExec, c.RemoteJobs, c.ReadOnly, len(c.Platform), c.NoWait, c.RequireSplit, c.SARIF, c.JUnit})
}

// A build with nothing to do takes a few milliseconds, so no package of ours makes anything when
// the program starts: a regular expression or a table waits for the one who needs it.
func TestNothingIsMadeAtStart(t *testing.T) {
	cmd := exec.Command("kbuild", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	const most = 16 << 10
	seen := 0
	for line := range strings.Lines(string(trace)) {
		var name string
		var at, clock float64
		var bytes, allocs int
		n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &clock, &bytes, &allocs)
		if n < 5 || !strings.Contains(name, "kbuild-dev") || strings.HasSuffix(name, "cmd/kbuild") { // this package has its tests here
			continue
		}
		if seen++; bytes > most {
			t.Errorf("%s makes %d bytes when the program starts", name, bytes)
		}
	}
	if seen == 0 {
		t.Errorf("no package of ours in the trace:\n%s", trace)
	}
}
