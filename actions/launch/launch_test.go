package launch

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command that may wait for another has no lease.
func TestCounted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{
		"nvcc --keep -c a.cu -o a.o":           true,
		"/usr/bin/g++ a.o b.o -o app":          true,
		"gcc -MMD -MF a.d -c a.c":              true,
		"nvcc -gencode=arch=compute_80 -dc a":  true,
		"gcc -E a.c -o a.i":                    false,
		"gcc -x c - -o a.o":                    false,
		"gcc -c a.c -o /dev/stdout":            false,
		"gcc -M a.c -o a.d":                    false,
		"gcc @a.rsp -c a.c":                    false,
		"gcc --version":                        false,
		"make -o a all":                        false,
		"nvcc -Xcompiler=-Wall,-E -c a.cu":     false,
		"gcc -c " + pipe + " -o a.o":           false,
		"gcc -c a.c -o" + pipe:                 false,
		"nvcc --generate-dependencies a -o b":  false,
		"nvcc --generate-code=arch=x -c a.cu":  true,
		"nvcc --options-file a -c a.cu -o a.o": false,
	} {
		if got := Counted(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
