package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Exit statuses of kbuild.
const (
	ExitFailed = 1 // a build failed
	ExitUsage  = 2 // the manifest or the command line is wrong
)

// Command returns a command that runs a program in the project's folder.
func (p *Project) Command(argv ...string) *exec.Cmd {
	program := argv[0]
	if !strings.Contains(program, "/") {
		program = p.Which(program)
	} else if !filepath.IsAbs(program) {
		program = filepath.Join(p.Dir, program)
	}
	cmd := exec.Command(program, argv[1:]...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	return cmd
}

// Run runs a program in the project's folder and returns its stdout and stderr.
func (p *Project) Run(argv ...string) (stdout, stderr string) {
	p.T.Helper()
	cmd := p.Command(argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		p.T.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// Status runs a program with additional environment variables. It returns its combined output and
// its exit status.
func (p *Project) Status(env []string, argv ...string) (printed string, status int) {
	p.T.Helper()
	cmd := p.Command(argv...)
	cmd.Env = slices.Concat(cmd.Env, env)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.T.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Fails runs kbuild, and expects it to fail.
func (p *Project) Fails(args ...string) (stdout, stderr string, status int) {
	p.T.Helper()
	cmd := p.Command(append([]string{"kbuild"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Counts holds the counts of a build's last JSON event.
type Counts struct {
	Actions, Ran, Cached, Up_to_date, Failed, Skipped int
	Kinds                                             string `json:"-"` // what ran: "cicc 2, preprocess 3"
}

// Kbuild runs kbuild, which must succeed, and returns its counts.
func (p *Project) Kbuild(args ...string) Counts {
	p.T.Helper()
	out, _ := p.Run(slices.Concat([]string{"kbuild", "--json"}, args)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var c Counts
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &c); err != nil {
		p.T.Fatalf("the last line is no event: %v\n%s", err, out)
	}
	c.Kinds = kinds(lines)
	if c.Ran+c.Cached+c.Up_to_date+c.Failed+c.Skipped != c.Actions {
		p.T.Errorf("counts do not add up: %+v", c)
	}
	return c
}

// kinds counts the actions that ran, or would run, by kind.
func kinds(events []string) string {
	ran := map[string]int{}
	for _, line := range events {
		var e struct{ Event, Kind, Status string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && (e.Status == "ran" || e.Status == "would_run") {
			ran[e.Kind]++
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(ran)) {
		out = append(out, fmt.Sprint(k, " ", ran[k]))
	}
	return strings.Join(out, ", ")
}

// Ran builds and checks which actions ran.
func (p *Project) Ran(what, want string, args ...string) {
	p.T.Helper()
	if c := p.Kbuild(args...); c.Kinds != want || c.Failed != 0 {
		p.T.Errorf("%s: ran %q, want %q", what, c.Kinds, want)
	}
}

// Settled checks the promises that hold for every project. Four builds run nothing: a second one,
// one after touch, one without the build tree, and one in a second checkout. The last two restore
// the same bytes.
func (p *Project) Settled(outputs ...string) {
	p.T.Helper()
	first := map[string][]byte{}
	for _, o := range outputs {
		first[o] = p.Read(o)
	}
	if c := p.Kbuild(); c.Up_to_date != c.Actions {
		p.T.Errorf("second run: %+v", c)
	}
	p.Run("find", ".", "-name", "build", "-prune", "-o", "-type", "f", "-exec", "touch", "{}", "+")
	if c := p.Kbuild(); c.Up_to_date != c.Actions {
		p.T.Errorf("after touch: %+v", c)
	}
	p.Run("rm", "-rf", "build")
	if c := p.Kbuild(); c.Ran != 0 || c.Failed != 0 {
		p.T.Errorf("after rm -rf build: %+v", c)
	}
	second := p.In(filepath.Join(p.T.TempDir(), "second"))
	CopyTree(p.T, p.Dir, second.Dir)
	p.Run("sh", "-c", `[ ! -f third_party/libspectra.a ] || cp third_party/libspectra.a "$1/third_party"`, "sh", second.Dir)
	if c := second.Kbuild(); c.Ran != 0 || c.Failed != 0 {
		p.T.Errorf("second checkout: %+v", c)
	}
	for _, o := range outputs {
		if !bytes.Equal(p.Read(o), first[o]) || !bytes.Equal(second.Read(o), first[o]) {
			p.T.Errorf("%s is not the same when it is restored", o)
		}
	}
}

// Checkout returns a copy of the project for the test t, with its own empty cache. names are the
// last parts of its path.
func (p *Project) Checkout(t *testing.T, names ...string) *Project {
	t.Helper()
	base := t.TempDir()
	q := p.In(filepath.Join(append([]string{base}, names...)...))
	q.T, q.Env = t, append(slices.Clone(p.Env), "KBUILD_CACHE_DIR="+filepath.Join(base, "cache"))
	CopyTree(t, p.Dir, q.Dir)
	return q
}

// Elsewhere builds a copy of the project with its own cache, and compares the outputs.
func (p *Project) Elsewhere(args []string, files ...string) {
	p.T.Helper()
	other := p.Checkout(p.T, "at", "another", "depth")
	// Of an empty cache, only passes with the key of another one of this build are taken.
	if c := other.Kbuild(args...); c.Cached >= c.Ran {
		p.T.Fatalf("another cache: %+v", c)
	}
	for _, f := range files {
		if !bytes.Equal(p.Read(f), other.Read(f)) {
			p.T.Errorf("%s is not the same in another folder", f)
		}
	}
}
