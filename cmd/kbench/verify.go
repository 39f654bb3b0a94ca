package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// printVersions prints the machine and the tools' versions. Without them, measurements mean
// nothing.
func printVersions(o *options, out io.Writer) {
	nvcc := "nvcc"
	if o.toolkit != "" {
		nvcc = filepath.Join(o.toolkit, "bin", nvcc)
	}
	fmt.Fprintf(out, "%s, %d processors, -j %d, %d sources, %s\n", processor(), runtime.NumCPU(), o.jobs, o.sources, strings.Join(o.archs, " "))
	measured := [][]string{
		{o.kbuild, "version"}, {nvcc, "--version"}, {o.ccbin, "--version"}, {"ninja", "--version"}, {"make", "--version"},
		{"ccache", "--version"}, {"sccache", "--version"}, {"strace", "--version"},
	}
	for _, n := range o.ninjas {
		if n != "ninja" && n != "make" {
			measured = append(measured, []string{n, "--version"})
		}
	}
	for _, argv := range measured {
		fmt.Fprintf(out, "%s: %s\n", filepath.Base(argv[0]), version(argv))
	}
}

// version returns the significant line of a version output. nvcc prints its release after its name
// and copyright.
func version(argv []string) string {
	text, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		return "not found"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, l := range lines {
		if strings.Contains(l, "release ") {
			return l
		}
	}
	return lines[0]
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// built opens a lane and builds the project from scratch.
func built(ctx context.Context, o *options, v variant, tool, name string) (*lane, error) {
	l, err := openLane(o, v, tool, name, false)
	if err != nil {
		return nil, err
	}
	m := l.measure(ctx, scenarios[0])
	if m.err == nil && m.stale != "" {
		m.err = errors.New("stale " + m.stale)
	}
	return l, m.err
}

// compareClones builds two clones in folders of different names and depths, each with its own
// cache. It fails unless their executables are equal.
func compareClones(ctx context.Context, o *options, v variant, out io.Writer) error {
	sums := map[[sha256.Size]byte]bool{}
	for _, name := range []string{"clone", "another clone/further down"} {
		l, err := built(ctx, o, v, "kbuild", name)
		if err != nil {
			return err
		}
		program, err := os.ReadFile(l.executable())
		if err != nil {
			return err
		}
		sum := sha256.Sum256(program)
		sums[sum] = true
		fmt.Fprintf(out, "%-8s %x  %s\n", v.name, sum, name)
	}
	if len(sums) != 1 {
		return errors.New("two clones give two executables")
	}
	return nil
}

// compareSASS fails unless kbuild's executable has the same device code as ninja's.
func compareSASS(ctx context.Context, o *options, v variant, out io.Writer) error {
	var dumps []string
	for _, tool := range []string{"kbuild", "ninja"} {
		l, err := built(ctx, o, v, tool, tool+"-sass")
		if err != nil {
			return err
		}
		sass, err := l.sass()
		if err != nil {
			return err
		}
		dumps = append(dumps, sass)
	}
	line, a, b := firstDifference(dumps[0], dumps[1])
	if line > 0 {
		return fmt.Errorf("SASS differs in line %d:\n  kbuild: %s\n  ninja:  %s", line, a, b)
	}
	fmt.Fprintf(out, "%-8s SASS identical, %d lines\n", v.name, strings.Count(dumps[0], "\n"))
	return nil
}

// firstDifference returns the number of the first line that differs, from 1, and both lines. It
// returns 0 if all lines are equal.
func firstDifference(a, b string) (int, string, string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		x, y := "(end)", "(end)"
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if x != y {
			return i + 1, x, y
		}
	}
	return 0, "", ""
}
