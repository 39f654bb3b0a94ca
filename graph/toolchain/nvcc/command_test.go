package nvcc

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// A command keeps its options in their order; what kbuild says itself is taken out of it.
func TestReadCommand(t *testing.T) {
	for _, tt := range []struct {
		argv, want           string
		source, output, mode string
		deps                 host.Command
	}{
		{"nvcc -c a.cu", "nvcc -c", "a.cu", "a.o", "whole", host.Command{}},
		{"nvcc -c -c dir/a.cu -o b.o -MD", "nvcc -c -c", "dir/a.cu", "b.o", "whole", host.Command{Deps: "b.d", Target: "b.o"}},
		{"nvcc -I inc -D X=1 -O 3 -x cu -dc a.cpp -MD -MF f -MT t -MP", "nvcc -I inc -D X=1 -O 3 -x cu -dc", "a.cpp", "a.o", "rdc", host.Command{Deps: "f", Target: "t", Phony: true}},
		{"nvcc --generate-code=arch=compute_80,code=[lto_80] -rdc=true -c a.cu --output-file=x/y.o", "nvcc --generate-code=arch=compute_80,code=[lto_80] -rdc=true -c", "a.cu", "x/y.o", "lto", host.Command{}},
		{"nvcc -rdc true -dlto -arch sm_80 -c a.cu", "nvcc -rdc true -dlto -arch sm_80 -c", "a.cu", "a.o", "lto", host.Command{}},
		{"nvcc -ptx a.cu --dependency-output d --generate-dependencies-with-compile", "nvcc -ptx", "a.cu", "a.ptx", "whole", host.Command{Deps: "d", Target: "a.o"}},
		{"nvcc -cubin b/a.cu -o a.cubin -MD", "nvcc -cubin", "b/a.cu", "a.cubin", "whole", host.Command{Deps: "a.d", Target: "a.cubin"}},
		{"nvcc -forward-unknown-to-host-compiler -Wall -fPIC -c a.cu", "nvcc -forward-unknown-to-host-compiler -Wall -fPIC -c", "a.cu", "a.o", "whole", host.Command{}},
	} {
		c, err := ReadCommand(strings.Fields(tt.argv))
		if err != nil {
			t.Errorf("%s: %v", tt.argv, err)
			continue
		}
		if got := strings.Join(c.Argv, " "); got != tt.want || c.Source != tt.source || c.Output != tt.output || c.Mode != tt.mode {
			t.Errorf("%s: %q of %s to %s, %s", tt.argv, got, c.Source, c.Output, c.Mode)
		}
		if c.Deps != tt.deps.Deps || c.Target != tt.deps.Target || c.Phony != tt.deps.Phony || c.Own {
			t.Errorf("%s: %+v, want %+v", tt.argv, c, tt.deps)
		}
	}
}

// One architecture more leaves the other options as they are.
func TestWithoutArchs(t *testing.T) {
	c, err := ReadCommand(strings.Fields("nvcc -DX -gencode arch=compute_80,code=sm_80 --generate-code=arch=compute_90,code=sm_90 -arch=sm_80 -O3 -c a.cu"))
	if err != nil || strings.Join(c.Options, " ") != "-DX -O3 -c" {
		t.Errorf("%q, %v", c.Options, err)
	}
}

func TestReadLink(t *testing.T) {
	c, err := ReadCommand(strings.Fields("nvcc -dlto -arch=sm_80 -Xcompiler=-fPIC -dlink a.o -o d.o -L. -lcudadevrt b.a"))
	if err != nil || !slices.Equal(c.Linked, []string{"a.o", "b.a"}) || c.Output != "d.o" || c.Mode != "lto" || strings.Join(c.Argv, " ") != "nvcc -dlto -arch=sm_80 -Xcompiler=-fPIC -dlink -L. -lcudadevrt" {
		t.Errorf("%+v, %v", c, err)
	}
}

// What has other effects than an output, or may be read wrongly, is nvcc's own.
func TestReadCommandLeaves(t *testing.T) {
	for argv, why := range map[string]string{
		"nvcc --version":                    "--version is not taken apart",
		"nvcc a.o -o prog":                  "no compile of one source",
		"nvcc -c":                           "no source",
		"nvcc -c a.cu b.cu":                 "more than one source",
		"nvcc -c --unheard-of b.cu a.cu":    "an option that is not known",
		"nvcc -c a.cpp":                     "no CUDA source",
		"nvcc -c a.cu -o":                   "no value",
		"nvcc -c a.cu -o a -o b":            "twice",
		"nvcc -c -ptx a.cu":                 "another kind of output",
		"nvcc -c a.cu --keep":               "--keep is not",
		"nvcc -c a.cu -odir x":              "-odir is not",
		"nvcc -c a.cu -MD -MMD":             "-MD and -MMD are both",
		"nvcc -E a.cu":                      "-E is not",
		"nvcc -c a.cu -MD=false":            "-MD=false is not",
		"nvcc -c a.cu --options-file=f":     "--options-file=f is not",
		"nvcc -c a.cu -arch=native":         "GPUs of this machine",
		"nvcc -c a.cu -gencode arch=native": "GPUs of this machine",
		"nvcc -c @file a.cu":                "nvcc knows no @file",
		"nvcc -c -":                         "not understood",
		"nvcc -dlink a.cu":                  "no object or archive",
		"nvcc -dlink":                       "nothing is linked",
		"nvcc -dlink -cubin a.o":            "makes no object",
	} {
		if c, err := ReadCommand(strings.Fields(argv)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %+v; want %q", argv, err, c, why)
		}
	}
}

// nvcc has one file on a line, each once, and escapes blanks alone.
func TestDependencies(t *testing.T) {
	c := host.Command{Target: "x y", Phony: true}
	got := string(c.Dependencies([]string{"a b.cu", "h#$.h", "a b.cu", "h#$.h"}))
	if want := "x y : a\\ b.cu \\\n    h#$.h\n\nh#$.h:\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
