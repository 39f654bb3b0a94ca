package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

var updateScripts = flag.Bool("update", false, "rewrite expected output in scripts")

func TestMain(m *testing.M) {
	if tool := splitTools[filepath.Base(os.Args[0])]; tool != nil {
		os.Exit(tool(os.Args[1:]))
	}
	if strings.HasSuffix(os.Args[0], ".test") { // some stop a kbuild in the middle of anything; scripts have a folder of their own
		os.Setenv("KBUILD_BROKER", "0")
		tooltest.Normalize()
	}
	run := func(f func() int) func() { return func() { os.Exit(f()) } }
	testscript.Main(m, map[string]func(){
		"kbuild":    run(func() int { return Main(os.Args[1:], os.Stdout, os.Stderr) }),
		"nvcc":      run(fakeNVCC),
		"fatbinary": run(fakeFatbinary),
		"g++":       run(fakeCXX),
		"gcc":       run(fakeCXX),
		"ar":        run(fakeAR),
		"killed":    run(fakeKilled),
		"paused":    run(fakeKilled),
		"watched":   run(fakeWatched),
	})
}

// TestScripts runs testdata/script/*.txtar with the fake toolchain.
func TestScripts(t *testing.T) {
	tools := t.TempDir()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *updateScripts,
		Setup: func(e *testscript.Env) error {
			samples, err := filepath.Abs("../../actions/fatbin/testdata")
			if err != nil {
				return err
			}
			e.Setenv("SAMPLES", samples) // files with real device code
			pip, err := filepath.Abs("../../actions/toolkit/testdata/pip")
			if err != nil {
				return err
			}
			e.Setenv("KBUILD_PIP", fmt.Sprintf("sh %q", pip))
			e.Setenv("KBUILD_CACHE_DIR", e.WorkDir+"/cache")
			e.Setenv("HOME", filepath.Dir(tools)) // what compilers say may depend on it
			e.Setenv("MAKEFLAGS", "")
			// What the compilers said is remembered by all scripts together: asking them is half of
			// what most of them take.
			if err := os.Mkdir(e.WorkDir+"/cache", 0o777); err != nil {
				return err
			}
			return os.Symlink(tools, e.WorkDir+"/cache/tools")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"quick": quickCommand, "settle": settleCommand, "project": projectCommand,
			"pretend": func(ts *testscript.TestScript, neg bool, args []string) { pretendCommand(t, ts) }},
		Condition: func(cond string) (bool, error) {
			_, err := exec.LookPath(cond)
			return err == nil, nil
		},
	})
}

// pretendCommand is `pretend`: the script goes on with the toolkit of cmd/internal/pretend, which
// makes archives and objects that kbuild can read.
func pretendCommand(t *testing.T, ts *testscript.TestScript) {
	one := filepath.Join(pretendFolder(t), "pretend-1")
	bin := ts.MkAbs("bin")
	ts.Check(os.Mkdir(bin, 0o777))
	for _, name := range pretendTools {
		ts.Check(os.Symlink(one, filepath.Join(bin, name)))
	}
	ts.Check(os.WriteFile(filepath.Join(bin, "link.stub"), []byte("#include REGISTERLINKBINARYFILE\n#include FATBINFILE\nregister all\n"), 0o666))
	ts.Setenv("PATH", bin+":"+ts.Getenv("PATH"))
}

var (
	pretendOnce sync.Once
	pretendDir  string
)

// pretendFolder is where the toolkit is built, once for all scripts.
func pretendFolder(t *testing.T) string {
	pretendOnce.Do(func() {
		pretendDir = t.TempDir()
		buildPretend(t, filepath.Join(pretendDir, "pretend-1"), filepath.Join(pretendDir, "pretend-2"))
	})
	return pretendDir
}

// projectCommand is `project NAME`: the files of testdata/project/NAME.txtar, which several scripts
// begin with.
func projectCommand(ts *testscript.TestScript, neg bool, args []string) {
	ar, err := txtar.ParseFile(filepath.Join("testdata", "project", args[0]+".txtar"))
	ts.Check(err)
	ts.Check(txtar.Write(ar, ts.MkAbs(".")))
}

// looksLong runs kbuild and reports that it went the long way: that takes the lock of the build
// tree, and writes its own number into it.
func looksLong(ts *testscript.TestScript, args []string) bool {
	lock := ts.MkAbs("build/.kbuild/lock")
	was, _ := os.ReadFile(lock)
	ts.Check(ts.Exec("kbuild", args...))
	is, err := os.ReadFile(lock)
	ts.Check(err)
	return string(was) != string(is)
}

// quickCommand is `quick ARGS`: kbuild ARGS finds out from the last view that there is nothing to
// do, or does not.
func quickCommand(ts *testscript.TestScript, neg bool, args []string) {
	if long := looksLong(ts, args); long != neg {
		ts.Fatalf("kbuild %v: the long way: %v", args, long)
	}
}

// settleCommand is `settle ARGS`: kbuild ARGS until it goes the quick way, which it does as soon as
// the clock of the file system has moved on.
func settleCommand(ts *testscript.TestScript, neg bool, args []string) {
	for range 1000 {
		if !looksLong(ts, args) {
			return
		}
	}
	ts.Fatalf("kbuild %v never goes the quick way", args)
}
