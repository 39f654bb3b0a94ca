package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// ccCmd holds the options of `kbuild cc`. Command lines of compilers are handled by launched
// instead.
type ccCmd struct {
	Stats   bool     `help:"Show what became of the calls, by project, and why compilers ran as they are."`
	ShowLog bool     `help:"Show the calls, the oldest first."`
	Explain string   `placeholder:"FILE" help:"Show why the last compile of this file ran."`
	Zero    bool     `help:"Forget the calls so far."`
	Links   string   `placeholder:"DIR" help:"Make links to kbuild under the names of compilers, for PATH or for a build tool that is given a compiler."`
	CMake   bool     `name:"cmake" help:"Write kbuild.cmake to standard output, for -DCMAKE_PROJECT_INCLUDE."`
	Command []string `arg:"" optional:"" help:"The compiler and its arguments, behind --."`
}

func (cc *ccCmd) Run(c *cli) error {
	switch {
	case cc.Links != "":
		return c.linkCompilers(cc.Links)
	case cc.CMake:
		return c.writeCMake()
	case !cc.Zero && !cc.Stats && !cc.ShowLog && cc.Explain == "":
		return exitError{exitUsage, errors.New("cc needs a compiler, behind --, or one of its options: kbuild cc --help")}
	}
	store, err := quick.OpenStore()
	if err != nil {
		return err
	}
	var calls []quick.Entry // the oldest first
	for _, name := range []string{quick.LogFile(store) + ".1", quick.LogFile(store)} {
		if cc.Zero {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for line := range bytes.Lines(text) {
			var e quick.Entry
			if json.Unmarshal(line, &e) == nil { // a killed process leaves a partial line
				calls = append(calls, e)
			}
		}
	}
	switch {
	case cc.Explain != "":
		return c.explainCall(cc.Explain, calls)
	case cc.Stats:
		c.showStats(calls)
		return nil
	}
	for _, e := range calls {
		why := ""
		if e.Why != "" {
			why = " (" + e.Why + ")"
		}
		fmt.Fprintf(c.out, "%s %s %s: %s%s\n", e.Time.Local().Format(time.DateTime), e.Result, e.Dir, term.ShellQuote(e.Argv), why)
	}
	return nil
}

// showStats counts calls by project. A project is the folder that the calls ran in.
func (c *cli) showStats(calls []quick.Entry) {
	type count struct {
		results    map[string]int
		ran, taken int
	}
	projects, why := map[string]*count{}, map[string]int{}
	for _, e := range calls {
		n := projects[e.Dir]
		if n == nil {
			n = &count{results: map[string]int{}}
			projects[e.Dir] = n
		}
		n.results[e.Result]++
		n.ran, n.taken = n.ran+e.Ran, n.taken+e.Taken
		if e.Result == quick.Left {
			why[e.Why]++
		}
	}
	fmt.Fprintf(c.out, "%8s %8s %8s %8s   %8s %8s\n", "calls", "hits", "misses", "left", "passes", "taken")
	for _, dir := range slices.Sorted(maps.Keys(projects)) {
		n := projects[dir]
		hits, misses, left := n.results[quick.Hit], n.results[quick.Miss], n.results[quick.Left]
		fmt.Fprintf(c.out, "%8d %8d %8d %8d   %8d %8d   %s\n", hits+misses+left, hits, misses, left, n.ran, n.taken, dir)
	}
	if len(why) > 0 {
		fmt.Fprintln(c.out, "\nleft to the compiler:")
	}
	for _, w := range slices.SortedFunc(maps.Keys(why), func(a, b string) int { return cmp.Or(why[b]-why[a], strings.Compare(a, b)) }) {
		fmt.Fprintf(c.out, "%8d  %s\n", why[w], w)
	}
}

// explainCall prints why the last command with that output file ran.
func (c *cli) explainCall(file string, calls []quick.Entry) error {
	want, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(calls) {
		i := 1 + slices.IndexFunc(e.Argv, func(a string) bool { return a == "-o" || a == "--output-file" })
		if i == 0 || i == len(e.Argv) || filepath.Clean(cache.Absolute(e.Dir, e.Argv[i])) != want {
			continue
		}
		why := "this command was new, or what it read"
		if e.Why != "" {
			why = "changed: " + e.Why
		}
		switch e.Result {
		case quick.Hit:
			fmt.Fprintln(c.out, "it was taken from the cache")
		case quick.Left:
			fmt.Fprintln(c.out, "the compiler ran as it is: "+e.Why)
		default:
			fmt.Fprintf(c.out, "%s; passes that ran: %d, from the cache: %d\n", why, e.Ran, e.Taken)
		}
		return nil
	}
	return fmt.Errorf("no call is known that made %s", file)
}

//go:embed kbuild.cmake
var kbuildCMake string

// writeCMake prints kbuild.cmake, which makes a CMake project use the launcher.
func (c *cli) writeCMake() error {
	program, err := launcher()
	if err != nil {
		return err
	}
	if strings.ContainsAny(program, `"\$;`) {
		return fmt.Errorf("CMake cannot name %s: it splits or expands it", program)
	}
	_, err = fmt.Fprint(c.out, launcherText(program))
	return err
}

// launcherText returns kbuild.cmake with the launcher filled in.
func launcherText(program string) string {
	return strings.NewReplacer("@LAUNCHER@", program, "@LANGUAGES@", "C CXX CUDA HIP").Replace(kbuildCMake)
}

// linkCompilers creates links to the launcher under the names of compilers.
func (c *cli) linkCompilers(dir string) error {
	program, err := launcher()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, name := range vendors.Compilers {
		if _, err := quick.LookPath(name); err != nil && slices.Contains(vendors.ForAMD, name) {
			continue // a build tool that finds hipcc would compile for AMD
		}
		link := filepath.Join(dir, name)
		if to, err := os.Readlink(link); err == nil && to == program {
			continue
		}
		if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s exists and is not a link; it is kept", link)
		}
		os.Remove(link)
		if err := os.Symlink(program, link); err != nil {
			return err
		}
	}
	return nil
}

// launcher returns the program to run in front of compilers: kbuild-cc if it is installed, else
// kbuild.
func launcher() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if small, err := exec.LookPath(filepath.Join(filepath.Dir(exe), "kbuild-cc")); err == nil {
		return small, nil
	}
	return exe, nil
}
