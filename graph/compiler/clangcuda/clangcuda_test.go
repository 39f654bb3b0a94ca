package clangcuda

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/compiler/compilertest"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestLearnRecorded reads recorded answers of clang about CUDA.
func TestLearnRecorded(t *testing.T) {
	compilertest.Recorded(t, func(t *testing.T, file string) string {
		asked, codes, text := compilertest.Read(t, file)
		return describe(text, asked, shippedCodes(asked, codes))
	})
}

// shippedCodes are machine code of all architectures, and PTX where it is not left out.
func shippedCodes(asked []string, sass []gencode.Code) (codes []gencode.Code) {
	for _, c := range sass {
		codes = append(codes, c)
		if !slices.Contains(asked, clang.WithoutPTX+c.String()) {
			codes = append(codes, c.As(gencode.PTX))
		}
	}
	return codes
}

func describe(text string, asked []string, codes []gencode.Code) string {
	p, err := LearnCompile(text, asked, codes)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	say := func(what string, argv []string) { fmt.Fprintf(&b, "%s\n  %s\n", what, strings.Join(argv, "\n  ")) }
	u := clang.Commands{Passes: p.Passes, Language: "cuda", Source: "<source>", ID: "<id>"}
	for _, c := range codes {
		if c.Kind == gencode.SASS {
			say("preprocess "+c.String(), u.Preprocess(&c, "<text>", "<depfile>"))
			say("device "+c.String(), u.Device(c, "<ptx>"))
			say("libraries of "+c.String(), p.Libs[c.String()])
			say("ptxas "+c.String(), p.Assemble(c, "<ptx>", "<cubin>"))
		}
	}
	argv, inputs := p.Pack(func(c gencode.Code) string { return "<" + c.String() + ">" }, "<out>")
	say("fatbinary of "+strings.Join(inputs, " "), argv)
	say("host", u.Host("<placeholder>", "<out>"))
	return b.String()
}

// TestLearnDoubts changes an answer: what does not fit together is not taken apart.
func TestLearnDoubts(t *testing.T) {
	asked, sass, text := compilertest.Read(t, "testdata/whole.txt")
	codes := shippedCodes(asked, sass)
	line := func(with string) string {
		for line := range strings.Lines(text) {
			if strings.Contains(line, with) {
				return line
			}
		}
		t.Fatalf("no line with %s", with)
		return ""
	}
	ptxas, pack, compile := line(`ptxas" "-m64"`), line(`fatbinary"`), line(`"-target-cpu" "sm_86"`)
	for _, tt := range []struct{ name, from, to, want string }{
		{"no steps", text, "clang: error: no\n", "shows no steps"},
		{"another program", ptxas, ` "/usr/bin/opt" "-O2"` + "\n", "clang runs opt"},
		{"an architecture twice", compile, compile + compile, "compiles twice for sm_86"},
		{"no ptxas", ptxas, "", "the fatbin has no sm_80"},
		{"two fatbins", pack, pack + pack, "fatbinary twice"},
		{"no fatbin", pack, "", "0 images for 3 codes"},
		{"ptxas of another file", `"--gpu-name" "sm_80"`, `"--gpu-name" "sm_86"`, `ptxas for "sm_86" does not read`},
		{"files of ptxas apart", `"--gpu-name" "sm_80" "--output-file"`, `"--output-file" "a.cubin" "--gpu-name" "sm_80"`, `does not read`},
		{"host code without device code", `"-fcuda-include-gpubinary"`, `"-fcuda-other"`, "without device code"},
		{"PTX in place of machine code", "profile=sm_86", "profile=compute_35", "the fatbin has no sm_86"},
	} {
		if !strings.Contains(text, tt.from) {
			t.Fatalf("%s: the recording has no %q", tt.name, tt.from)
		}
		_, err := LearnCompile(strings.Replace(text, tt.from, tt.to, 1), asked, codes)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
