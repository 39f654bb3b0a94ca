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
	text := strings.NewReplacer("@LAUNCHER@", program, "@LANGUAGES@", "C CXX CUDA").Replace(kbuildCMake)
	_, err = fmt.Fprint(c.out, text)
	return err
}
