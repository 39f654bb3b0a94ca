package toolchain

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestLearnHIPRecorded reads recorded answers of hipcc and of clang.
func TestLearnHIPRecorded(t *testing.T) {
	testRecorded(t, "testdata/hip", func(t *testing.T, file string) string {
		asked, text := recordedHIP(t, file)
		return describeHIP(text, asked)
	})
}

// recordedHIP is a recording: what was asked, separated by tabs in the first line, and the answer.
func recordedHIP(t *testing.T, file string) (asked []string, text string) {
	t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, text, _ := strings.Cut(strings.TrimPrefix(string(whole), "asked: "), "\n")
	return strings.Split(strings.TrimRight(first, "\t"), "\t"), text
}

func askedCodes(asked []string) (codes []gencode.Code) {
	for _, a := range asked {
		if name, ok := strings.CutPrefix(a, offloadArch); ok {
			c, _ := gencode.Parse(name)
			codes = append(codes, c)
		}
	}
	return codes
}

func describeHIP(text string, asked []string) string {
	codes := askedCodes(asked)
	lines := func(argv []string) string { return strings.Join(argv, "\n  ") + "\n" }
	if strings.Contains(strings.Join(asked, " "), "--hip-link") {
		if strings.Contains(strings.Join(asked, " "), "-fno-gpu-rdc") {
			codes = nil
		}
		l, err := LearnHIPLink(text, asked, codes)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		out := "runtime " + lines(append(l.LibDirs, l.Libs...))
		for _, d := range l.Device {
			out += "lld " + d.Arch + "\n  " + lines(d.Device([]string{"<a>", "<b>"}, "<out>"))
		}
		if codes != nil {
			out += "bundle " + lines(packed(l.Bundle, "", "<1>", "<2>"))
		}
		return out
	}
	p, err := LearnHIP(text, asked, codes)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	u := ClangUnit{ClangPasses: p.ClangPasses, Language: "hip", Source: "<source>", ID: "<id>"}
	out := "preprocess " + lines(u.Preprocess(&codes[0], "<out>", "<dep>")) + "device " + lines(u.Device(codes[0], "<out>")) +
		"host " + lines(u.Host("<placeholder>", "<out>"))
	for _, c := range codes {
		out += fmt.Sprintf("libraries of %s\n  %s", c, lines(p.Libs[c.String()]))
	}
	return out + "bundle " + lines(packed(p.Bundle, "<0>", "<1>", ""))
}

// packed is the command that packs files, one for each target in order.
func packed(b HIPBundle, files ...string) []string {
	argv, _ := b.Pack(func(string) string {
		f := files[0]
		files = files[1:]
		return f
	}, "<out>")
	return argv
}

// What a later clang does otherwise is an error, not a guess: the caller then runs hipcc as one command.
func TestLearnHIPStrange(t *testing.T) {
	asked, text := recordedHIP(t, "testdata/hip/rdc.txt")
	codes := askedCodes(asked)
	linkAsked, link := recordedHIP(t, "testdata/hip/link-rdc.txt")
	for name, err := range map[string]error{
		"no steps":                   second(LearnHIP("clang version 99\n", asked, codes)),
		"no bundle":                  second(LearnHIP(strings.ReplaceAll(text, "clang-offload-bundler", "clang-linker-wrapper"), asked, codes)),
		"an architecture is missing": second(LearnHIP(strings.ReplaceAll(text, `"-target-cpu" "gfx906"`, `"-target-cpu" "gfx90a"`), asked, codes)),
		"a target is missing":        second(LearnHIP(strings.ReplaceAll(text, "-targets=hip-amdgcn-amd-amdhsa-gfx906,", "-targets="), asked, codes)),
		"links in another order":     second(LearnHIPLink(swap(link, "mcpu=gfx906", "mcpu=gfx90a"), linkAsked, codes)),
		"a link is missing":          second(LearnHIPLink(strings.ReplaceAll(link, `/bin/lld"`, `/bin/else"`), linkAsked, codes)),
		"a shell's work":             second(LearnHIP(strings.ReplaceAll(text, "hipcc-cmd: ", "hipcc-cmd: $(x) "), asked, codes)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func swap(s, a, b string) string {
	return strings.NewReplacer(a, b, b, a).Replace(s)
}
