package hip

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/dryruntest"
)

// TestLearnRecorded reads recorded answers of hipcc and of clang.
func TestLearnRecorded(t *testing.T) {
	dryruntest.Recorded(t, func(t *testing.T, file string) string {
		asked, codes, text := dryruntest.Read(t, file)
		return describe(text, asked, codes)
	})
}

func describe(text string, asked []string, codes []gencode.Code) string {
	lines := func(argv []string) string { return strings.Join(argv, "\n  ") + "\n" }
	if strings.Contains(strings.Join(asked, " "), "--hip-link") {
		if strings.Contains(strings.Join(asked, " "), "-fno-gpu-rdc") {
			codes = nil
		}
		l, err := LearnLink(text, asked, codes, strings.Contains(text, linkerWrapper))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		out := "runtime " + lines(append(l.LibDirs, l.Libs...))
		if l.Wrapper != nil {
			q := l.AskWrapper(codes)
			return out + "asks " + lines(append([]string{q.Program}, q.Args...)) + "of code for " + lines(q.Offload)
		}
		for _, d := range l.Device {
			out += "lld " + d.Arch + "\n  " + lines(d.Device([]string{"<a>", "<b>"}, "<out>"))
		}
		if codes != nil {
			out += "bundle " + lines(packed(l.Bundle, "", "<1>", "<2>"))
		}
		return out
	}
	p, err := LearnCompile(text, asked, codes)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	u := clang.Commands{Passes: p.Passes, Language: "hip", Source: "<source>", ID: "<id>"}
	out := "device " + lines(u.Device(codes[0], "<out>", "<dep>")) + "text " + lines(u.Text(codes[0], "<out>", "<dep>")) +
		"dependencies " + lines(u.Dependencies(codes[0], "<dep>")) +
		"host " + lines(u.Host("<placeholder>", "<out>", "<dep>"))
	for _, c := range codes {
		out += fmt.Sprintf("libraries of %s\n  %s", c, lines(p.Libs[c.String()]))
	}
	if p.New {
		out += "packs " + lines(p.packager.Pack(func(arch string) string { return "<" + arch + ">" }, "<out>"))
		if q, ok := p.AskWrapper(codes); ok {
			out += "asks " + lines(append([]string{q.Program}, q.Args...)) + "of code for " + lines(q.Offload)
		}
		return out
	}
	return out + "bundle " + lines(packed(p.Bundle, "<0>", "<1>", ""))
}

// packed is the command that packs files, one for each target in order.
func packed(b Bundle, files ...string) []string {
	byArch := map[string]string{}
	for i, target := range b.Targets {
		byArch[b.Arch(target)] = files[i]
	}
	argv, _ := b.Pack(byArch, "<out>")
	return argv
}

// What a later clang does otherwise is an error, not a guess: the caller then runs hipcc as one
// command.
func TestLearnStrange(t *testing.T) {
	asked, codes, text := dryruntest.Read(t, "testdata/rdc.txt")
	linkQueried, _, link := dryruntest.Read(t, "testdata/link-rdc.txt")
	for name, err := range map[string]error{
		"no steps":                   second(LearnCompile("clang version 99\n", asked, codes)),
		"no bundle":                  second(LearnCompile(strings.ReplaceAll(text, "clang-offload-bundler", "clang-linker-wrapper"), asked, codes)),
		"an architecture is missing": second(LearnCompile(strings.ReplaceAll(text, `"-target-cpu" "gfx906"`, `"-target-cpu" "gfx90a"`), asked, codes)),
		"a target is missing":        second(LearnCompile(strings.ReplaceAll(text, "-targets=hip-amdgcn-amd-amdhsa-gfx906,", "-targets="), asked, codes)),
		"links in another order":     second(LearnLink(swap(link, "mcpu=gfx906", "mcpu=gfx90a"), linkQueried, codes, false)),
		"a link is missing":          second(LearnLink(strings.ReplaceAll(link, `/bin/lld"`, `/bin/else"`), linkQueried, codes, false)),
		"a link of the new driver":   second(LearnLink(link, linkQueried, codes, true)),
		"nothing is taken out":       second(LearnLink(strings.ReplaceAll(link, `"-unbundle"`, `"-other"`), linkQueried, codes, false)),
		"a shell's work":             second(LearnCompile(strings.ReplaceAll(text, "hipcc-cmd: ", "hipcc-cmd: $(x) "), asked, codes)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What clang-linker-wrapper would run is understood, or it runs as it is.
func TestLearnWrapper(t *testing.T) {
	codes := []gencode.Code{{Kind: gencode.GFX, Name: "gfx906"}, {Kind: gencode.GFX, Name: "gfx90a", Feature: ":xnack-"}}
	const text = ` "/llvm/clang" --no-default-config -o app.gfx906.img -dumpdir app.gfx906.img. --target=amdgcn-amd-amdhsa -mcpu=gfx906 -flto kbuild_input-amdgcn-amd-amdhsa-gfx906-1.o -O3
 "/llvm/clang" --no-default-config -o app.gfx90a.img --target=amdgcn-amd-amdhsa -mcpu=gfx90a:xnack- -flto kbuild_input-amdgcn-amd-amdhsa-gfx90a:xnack--2.o -O3
 "/llvm/clang-offload-bundler" -type=o -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a:xnack-,hip-amdgcn-amd-amdhsa--gfx906 -input=/dev/null -input=a -input=b -output=c
 "/usr/bin/ld" -o app kbuild_input.o
`
	l, err := LearnWrapper(text, codes)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(l.Device[0].Device([]string{"a.o", "b.o"}, "out"), " ")
	if want := "/llvm/clang --no-default-config --target=amdgcn-amd-amdhsa -mcpu=gfx906 -flto -O3 -o out a.o b.o"; got != want || l.Device[1].Arch != "gfx90a:xnack-" {
		t.Errorf("%s, want %s; then %s", got, want, l.Device[1].Arch)
	}
	for name, other := range map[string]string{
		"nothing":             "clang version 99\n",
		"no link for gfx906":  strings.Replace(text, "-mcpu=gfx906", "-mcpu=gfx908", 1),
		"a file of its own":   strings.Replace(text, "-O3", "extra.o", 1),
		"no input":            strings.Replace(text, "kbuild_input-amdgcn-amd-amdhsa-gfx906-1.o ", "", 1),
		"a target is missing": strings.Replace(text, ",hip-amdgcn-amd-amdhsa--gfx906", "", 1),
		"no bundle":           strings.Replace(text, "clang-offload-bundler", "clang-else", 1),
		"one link more":       text + strings.SplitAfter(text, "\n")[0],
	} {
		if _, err := LearnWrapper(other, codes); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func swap(s, a, b string) string {
	return strings.NewReplacer(a, b, b, a).Replace(s)
}
