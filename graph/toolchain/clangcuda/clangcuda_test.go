package clangcuda

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/dryruntest"
)

// TestLearnRecorded reads recorded answers of clang about CUDA.
func TestLearnRecorded(t *testing.T) {
	dryruntest.Recorded(t, func(t *testing.T, file string) string {
		asked, codes, text := dryruntest.Read(t, file)
		return describe(text, asked, shippedCodes(asked, codes))
	})
}

// shippedCodes are machine code of all architectures, and PTX where it is not left out: from clang
// 21 on by default. There is none in relocatable code.
func shippedCodes(asked []string, sass []gencode.Code) (codes []gencode.Code) {
	lately := strings.HasPrefix(asked[0], "clang++-2")
	for _, c := range sass {
		codes = append(codes, c)
		ptx := !lately && !slices.Contains(asked, clang.WithoutPTX+c.String()) || slices.Contains(asked, clang.WithPTX+c.String())
		if ptx && !slices.Contains(asked, "-fgpu-rdc") {
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
			say("device "+c.String(), u.Device(c, "<ptx>", "<dep>"))
			say("text "+c.String(), u.Text(c, "<text>", "<dep>"))
			say("libraries of "+c.String(), p.Libs[c.String()])
			if !p.Bitcode {
				say("ptxas "+c.String(), p.Assemble(c, "<ptx>", "<cubin>"))
			}
		}
	}
	if p.Embeds {
		say("package", p.packager.Pack(func(arch string) string { return "<" + arch + ">" }, "<out>"))
		say("host", u.Host("<placeholder>", "<out>", "<dep>"))
		return b.String()
	}
	argv, inputs := p.Pack(func(c gencode.Code) string { return "<" + c.String() + ">" }, "<out>")
	say("fatbinary of "+strings.Join(inputs, " "), argv)
	say("host", u.Host("<placeholder>", "<out>", "<dep>"))
	return b.String()
}

// TestLearnDoubts changes an answer: what does not fit together is not taken apart.
func TestLearnDoubts(t *testing.T) {
	asked, sass, text := dryruntest.Read(t, "testdata/whole.txt")
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

// TestLearnRelocatableDoubts changes answers about relocatable code.
func TestLearnRelocatableDoubts(t *testing.T) {
	for _, tt := range []struct{ name, file, from, to, want string }{
		{"the old driver", "19-rdc", `clang-offload-packager"`, `clang-offload-bundler"`, "clang runs clang-offload-bundler"},
		{"packed twice", "19-rdc", "\n \"/usr/lib/llvm-19/bin/clang-offload-packager\"", "\n \"/x/llvm-offload-binary\" \"-o\" \"x\"\n \"/usr/lib/llvm-19/bin/clang-offload-packager\"", "clang runs clang-offload-packager twice"},
		{"another file is embedded", "19-rdc", "-fembed-offload-object=", "-fembed-offload-object=/other", "without device code"},
		{"none is embedded", "19-rdc", "-fembed-offload-object=", "-fother=", "without device code"},
		{"another architecture", "19-rdc", "arch=sm_80,kind", "arch=sm_86,kind", "no sm_80 is packed"},
		{"an image too many", "22-lto", `"--image=file=`, `"--image=file=/a.o,arch=sm_70,kind=cuda" "--image=file=`, "3 images are packed for 2 codes"},
		{"no bitcode", "22-lto", `"-target-cpu" "sm_80"`, `"-target-cpu" "sm_70"`, "no sm_80 is packed"},
	} {
		asked, sass, text := dryruntest.Read(t, "testdata/"+tt.file+".txt")
		if !strings.Contains(text, tt.from) {
			t.Fatalf("%s: the recording has no %q", tt.name, tt.from)
		}
		_, err := LearnCompile(strings.Replace(text, tt.from, tt.to, 1), asked, shippedCodes(asked, sass))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// The argv of links, by version: what each is told of the toolkit.
func TestLinks(t *testing.T) {
	sm80 := gencode.Code{Kind: gencode.SASS, Num: 80}
	k := Driver{Path: "clang++", CUDAPath: "/cuda"}
	for _, tt := range []struct {
		name string
		argv []string
		want string
	}{
		{"19, whole", k.Link(Link{Major: 19, LTO: true, Opt: "2", Codes: []gencode.Code{sm80}, LinkerFlags: []string{"-v"}}),
			"clang++ --cuda-path=/cuda -Wno-unused-command-line-argument --offload-link -O2 -foffload-lto --offload-arch=sm_80 -Xoffload-linker -v -Xlinker --cuda-path=/cuda"},
		{"22, whole", k.Link(Link{Major: 22, Codes: []gencode.Code{sm80}}),
			"clang++ --cuda-path=/cuda -Wno-unused-command-line-argument --offload-link --offload-arch=sm_80 -Xlinker --cuda-path=/cuda " +
				"-Xlinker --device-compiler=nvptx64-nvidia-cuda=--cuda-path=/cuda"},
		{"22, taken apart", k.Link(Link{Major: 22, Images: []string{"a,b.cubin"}, LinkerFlags: []string{"-v"}}),
			"clang++ --cuda-path=/cuda -Wno-unused-command-line-argument --offload-link -Xlinker --cuda-path=/cuda -Xlinker --override-image=cuda=a,b.cubin"},
		{"a device link", NVLink("nvlink", sm80, []string{"-v"}, []string{"a.cubin"}, "out"), "nvlink -arch sm_80 -v -o out a.cubin"},
		{"one with LTO", k.DeviceLTO(sm80, []string{"a.o"}, "out"),
			"clang++ --no-default-config --target=nvptx64-nvidia-cuda -march=sm_80 --cuda-path=/cuda -Wno-unknown-cuda-version -o out a.o"},
	} {
		if got := strings.Join(tt.argv, " "); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestMisreadsImages(t *testing.T) {
	for toolkit, want := range map[string]bool{"11.8": false, "12.9": false, "13.0": true, "13.5": true, "14.0": true, "": true} {
		if got := MisreadsImages(toolkit); got != want {
			t.Errorf("%q: %t", toolkit, got)
		}
	}
}
