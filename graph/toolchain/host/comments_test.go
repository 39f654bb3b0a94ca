package host

import (
	"strings"
	"testing"
)

func TestIgnoresComments(t *testing.T) {
	for options, want := range map[string]bool{
		"-c -std=c++17 -O2 -fPIC -DA=1 -D B -Iinc -I inc -isystem sys -MD -MF a.d -x c++ -o a.o a.cpp": true,
		"-c -w -Wall -Wextra -Werror -Wno-unused -march=native -fno-rtti a.c":                          true,
		"-c -std=gnu11 a.c": true,
		"-c -std=c90 a.c":   false, "-c -ansi a.c": false, "-c -std=gnu89 a.c": false,
		"-c -g a.cpp": false, "-c -O2 --coverage a.cpp": false, "-c -fsanitize=address a.cpp": false,
		"-c @flags a.cpp": false, "-c -Wa,-g a.cpp": false, "-c -include a.h a.cpp": false, "-c -C a.cpp": false,
		"-c -Wdocumentation a.cpp": false, "-c -Weverything a.cpp": false,
		"-c -Werror=unused-value -Werror=return-type -Werror=format=2 a.c": true,
		"-c -Werror=documentation a.cpp":                                   false, "-c -Werror=implicit-fallthrough=1 a.c": false,
		"-c -Werror=everything a.cpp": false, "-c -Wno-error=documentation a.cpp": true,
		"-c -Wimplicit-fallthrough=1 a.c": false,
		"-c -x cuda a.cpp":                false, "-c -mllvm -x a.cpp": false, "-c -fplugin=a.so a.cpp": false, "-x": false,
		"-c -o -g a.cpp": true, // it is the name of a file
	} {
		if got := IgnoresComments(strings.Fields(options)); got != want {
			t.Errorf("%s: %v", options, got)
		}
	}
}
