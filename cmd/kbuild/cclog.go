package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/launch/quick"
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
	case cc.Zero:
		return c.zeroLog()
	case cc.Stats, cc.ShowLog, cc.Explain != "":
		calls, err := readCalls()
		if err != nil {
			return err
		}
		return cc.show(c, calls)
	}
	return exitError{exitUsage, errors.New("cc needs a compiler, behind --, or one of its options: kbuild cc --help")}
}

func (cc *ccCmd) show(c *cli, calls []quick.Entry) error {
	switch {
	case cc.Explain != "":
		return c.explainCall(cc.Explain, calls)
	case cc.ShowLog:
		for _, e := range calls {
			fmt.Fprintf(c.out, "%s %s %s: %s%s\n", e.Time.Local().Format("2006-01-02 15:04:05"), e.Result, e.Dir, term.ShellQuote(e.Argv), because(e))
		}
		return nil
	}
	c.showStats(calls)
	return nil
}

func because(e quick.Entry) string {
	if e.Why == "" {
		return ""
	}
	return " (" + e.Why + ")"
}

// readCalls reads the log and its predecessor, the oldest call first.
func readCalls() (calls []quick.Entry, err error) {
	store, err := quick.OpenStore()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{quick.LogFile(store) + ".1", quick.LogFile(store)} {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var e quick.Entry
			if json.Unmarshal(lines.Bytes(), &e) == nil { // a killed process leaves a partial line
				calls = append(calls, e)
			}
		}
	}
	return calls, nil
}

func (c *cli) zeroLog() error {
	store, err := quick.OpenStore()
	if err != nil {
		return err
	}
	for _, name := range []string{quick.LogFile(store) + ".1", quick.LogFile(store)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// showStats counts calls by project. A project is the folder that the calls ran in.
func (c *cli) showStats(calls []quick.Entry) {
	type count struct{ hits, misses, left, ran, taken int }
	projects := map[string]*count{}
	why := map[string]int{}
	for _, e := range calls {
		n := projects[e.Dir]
		if n == nil {
			n = &count{}
			projects[e.Dir] = n
		}
		n.ran, n.taken = n.ran+e.Ran, n.taken+e.Taken
		switch e.Result {
		case quick.Hit:
			n.hits++
		case quick.Miss:
			n.misses++
		default:
			n.left++
			why[e.Why]++
		}
	}
	fmt.Fprintf(c.out, "%8s %8s %8s %8s   %8s %8s\n", "calls", "hits", "misses", "left", "passes", "taken")
	for _, dir := range slices.Sorted(maps.Keys(projects)) {
		n := projects[dir]
		fmt.Fprintf(c.out, "%8d %8d %8d %8d   %8d %8d   %s\n", n.hits+n.misses+n.left, n.hits, n.misses, n.left, n.ran, n.taken, dir)
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
		for i, a := range e.Argv {
			if i == 0 || e.Argv[i-1] != "-o" && e.Argv[i-1] != "--output-file" {
				continue
			}
			if made := a; made != "" {
				if !filepath.IsAbs(made) {
					made = filepath.Join(e.Dir, made)
				}
				if made == want {
					fmt.Fprintf(c.out, "%s\n", explained(e))
					return nil
				}
			}
		}
	}
	return fmt.Errorf("no call is known that made %s", file)
}

func explained(e quick.Entry) string {
	switch e.Result {
	case quick.Hit:
		return "it was taken from the cache"
	case quick.Left:
		return "the compiler ran as it is: " + e.Why
	}
	why := "this command was new, or what it read"
	if e.Why != "" {
		why = "changed: " + e.Why
	}
	return fmt.Sprintf("%s; %d passes ran, %d were taken from the cache", why, e.Ran, e.Taken)
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
			return fmt.Errorf("%s is no link: it stays, and nothing was made in its place", link)
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
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	if small := filepath.Join(filepath.Dir(exe), "kbuild-cc"); executable(small) {
		return small, nil
	}
	return exe, nil
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
