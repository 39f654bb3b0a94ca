package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestLearnHIPRecorded reads recorded answers of hipcc and of clang.
func TestLearnHIPRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/hip/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			asked, text := recordedHIP(t, file)
			got := describeHIP(text, asked)
			want := strings.TrimSuffix(file, ".txt") + ".want"
			if *update {
				os.WriteFile(want, []byte(got), 0o666)
			}
			golden, _ := os.ReadFile(want)
			if string(golden) != got {
				t.Errorf("got:\n%s\nwant (-update rewrites):\n%s", got, golden)
			}
		})
	}
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
			out += "bundle " + lines(l.Bundle.Bundle([]string{"", "<1>", "<2>"}[:len(l.Bundle.Targets)], "<out>"))
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
	return out + "bundle " + lines(p.Bundle.Bundle([]string{"<0>", "<1>", ""}[:len(p.Bundle.Targets)], "<out>"))
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
