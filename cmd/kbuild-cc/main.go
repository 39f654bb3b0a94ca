// Command kbuild-cc stands before a compiler in build tools that are not kbuild: kbuild-cc nvcc -c
// a.cu -o a.o. It is the fast half of `kbuild cc`: what a command made before is brought in a few
// milliseconds, and anything else is for kbuild, which is started in its place. Under the name of a
// compiler, as a link, it stands before that one.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/run"
)

func main() {
	run.DropRelativePath()
	args := os.Args[1:]
	if base := filepath.Base(os.Args[0]); base != "kbuild-cc" {
		args = append([]string{base}, args...)
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: kbuild-cc COMPILER ARGS...; kbuild help cc says more")
		os.Exit(2)
	}
	c, err := quick.Read(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: kbuild-cc:", err)
		os.Exit(127)
	}
	if !quick.Disabled() {
		bring(c)
		start(args)
	}
	fmt.Fprintln(os.Stderr, "error: kbuild-cc:", c.Exec())
	os.Exit(126)
}

// bring ends the process if the command is remembered.
func bring(c *quick.Call) {
	store, err := quick.OpenStore()
	if err != nil {
		return
	}
	if done, _ := c.Try(context.Background(), store); done {
		c.Log(store, quick.Entry{Result: quick.Hit})
		os.Exit(0)
	}
}

// start starts kbuild in place of this process, if it is there.
func start(args []string) {
	exe, err := os.Executable()
	if err != nil {
		return
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	kbuild := filepath.Join(filepath.Dir(exe), "kbuild")
	unix.Exec(kbuild, append([]string{kbuild, "cc", "--"}, args...), os.Environ())
}
