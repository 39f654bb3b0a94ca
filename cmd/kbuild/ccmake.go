package main

import (
	_ "embed"
	"fmt"
	"strings"
)

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
