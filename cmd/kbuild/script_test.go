package main

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var updateScripts = flag.Bool("update", false, "rewrite expected output in scripts")

func TestMain(m *testing.M) {
	run := func(f func() int) func() { return func() { os.Exit(f()) } }
	testscript.Main(m, map[string]func(){
		"kbuild": run(func() int { return Main(os.Args[1:], os.Stdout, os.Stderr) }),
		"nvcc":   run(fakeNVCC),
		"g++":    run(fakeCXX),
		"gcc":    run(fakeCXX),
		"ar":     run(fakeAR),
	})
}

// TestScripts runs testdata/script/*.txtar with the fake toolchain.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *updateScripts,
		Setup: func(e *testscript.Env) error {
			e.Setenv("KBUILD_CACHE_DIR", e.WorkDir+"/cache")
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MAKEFLAGS", "")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			_, err := exec.LookPath(cond)
			return err == nil, nil
		},
	})
}
