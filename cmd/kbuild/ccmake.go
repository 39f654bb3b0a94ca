package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed kbuild.cmake
var kbuildCMake string

// writeCMake writes the file that puts kbuild into a CMake project.
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

// launcherText is kbuild.cmake for a launcher.
func launcherText(program string) string {
	return strings.NewReplacer("@LAUNCHER@", program, "@LANGUAGES@", "C CXX CUDA HIP").Replace(kbuildCMake)
}
