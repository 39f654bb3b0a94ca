package nvcc

import (
	"reflect"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// What Driver.Compile writes is what ReadSettings reads.
func TestSettings(t *testing.T) {
	on, off := true, false
	o := toolchain.Options{Std: "c++17", Opt: "3", Includes: []string{"a b"}, Defines: []string{"A", `B="q r"`}, FastMath: true, FTZ: &on, PrecDiv: &off,
		MaxRegisters: 32, Debug: true, LineInfo: true, Flags: []string{"--extended-lambda", "-diag-suppress", "177"}, PTXAS: []string{"-v"}, Host: []string{"-Wall", "-Wl,x"}}
	sm, ptx := gencode.Code{Num: 75}, gencode.Code{Kind: gencode.PTX, Num: 80}
	argv := Driver{Path: "nvcc"}.Compile(toolchain.Compile{Source: "a.cu", Output: "a.o", Depfile: "a.d", Mode: "whole", Codes: []gencode.Code{sm, ptx}}, o)
	s, err := ReadSettings(argv[1 : len(argv)-1])
	if err != nil {
		t.Fatal(err)
	}
	if want := (Settings{Options: o, Mode: "whole", Codes: []gencode.Code{sm, ptx}}); !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// The options that other build tools write for architectures, and what ships by them.
func TestSettingsOfArchitectures(t *testing.T) {
	for _, tt := range []struct {
		words []string
		mode  string
		codes []string
		lost  int
	}{
		{[]string{"-rdc=true", "--generate-code=arch=compute_75,code=[lto_75]", "--generate-code=arch=compute_80,code=[compute_80,lto_80]"}, "lto", []string{"sm_75", "compute_80", "sm_80"}, 0},
		{[]string{"-rdc=true", "-gencode", "arch=compute_80,code=sm_80"}, "rdc", []string{"sm_80"}, 0},
		{[]string{"-arch=sm_80"}, "whole", []string{"sm_80", "compute_80"}, 0},
		{[]string{"-arch", "compute_80", "-code=sm_80,compute_80", "-dc"}, "rdc", []string{"sm_80", "compute_80"}, 0},
		{[]string{"-arch=all-major"}, "whole", []string{"all-major"}, 0},
		{[]string{"-gencode=arch=compute_75,code=lto_75"}, "whole", []string{"lto_75"}, 0},
		{[]string{"-gencode=arch=compute_75,code=sm_80"}, "whole", []string{"sm_80"}, 1},
	} {
		s, err := ReadSettings(tt.words)
		var codes []string
		for _, c := range s.Codes {
			codes = append(codes, c.String())
		}
		if err != nil || s.Mode != tt.mode || !slices.Equal(codes, tt.codes) || len(s.Lost) != tt.lost {
			t.Errorf("%q: %s %q %q, %v", tt.words, s.Mode, codes, s.Lost, err)
		}
	}
}
