// Command kbuild-cc is a compiler launcher for other build tools: kbuild-cc nvcc -c a.cu -o a.o. It
// is the fast half of `kbuild cc`: it restores the outputs of a cached command in a few
// milliseconds. For any other command it replaces itself with kbuild. A link to it with a
// compiler's name launches that compiler. It knows no compiler options and splits no commands.
package main

import (
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
		if done, _, _ := c.Try(); done {
			os.Exit(0)
		}
		start(args)
	}
	fmt.Fprintln(os.Stderr, "error: kbuild-cc:", c.Exec())
	os.Exit(126)
}

// start replaces this process with kbuild. It returns if kbuild is not installed.
func start(args []string) {
	exe, err := os.Executable()
	if err != nil {
		return
	}
	kbuild := filepath.Join(filepath.Dir(exe), "kbuild")
	unix.Exec(kbuild, append([]string{kbuild, "cc", "--"}, args...), os.Environ())
}
