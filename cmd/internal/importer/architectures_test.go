package importer

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// shipped returns what nvcc ships by options: the images of its dry run, or "fatal".
func shipped(t *testing.T, tk tooltest.Toolkit, words []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.cu"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(tk.Root, map[bool]string{true: "nvcc", false: "bin/nvcc"}[tk.Root == ""]), append(words, "-ccbin", tooltest.HostGCC(t), "--dryrun", "-c", "a.cu")...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "fatal"
	}
	var images []string
	for _, m := range regexp.MustCompile(`--image3=kind=(\w+),sm=(\w+),`).FindAllSubmatch(out, -1) {
		images = append(images, map[string]string{"elf": "sm_", "ptx": "compute_", "nvvm": "lto_"}[string(m[1])]+string(m[2]))
	}
	slices.Sort(images)
	return strings.Join(images, " ")
}

// TestArchitectures holds what is read of every spelling of architectures against nvcc's dry run,
// recorded in testdata/architectures.txt for machines without nvcc.
func TestArchitectures(t *testing.T) {
	const file = "testdata/architectures.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var toolkits []tooltest.Toolkit
	if _, err := exec.LookPath("nvcc"); err == nil || os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
		toolkits = tooltest.Toolkits(t)
	}
	var rewritten strings.Builder
	for line := range strings.Lines(string(text)) {
		options, answers, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			rewritten.WriteString(line)
			continue
		}
		words := strings.Fields(options)
		s, err := nvcc.ReadSettings(words)
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		for _, c := range s.Codes {
			if s.Mode == "lto" && c.Kind == gencode.SASS {
				c = c.As(gencode.LTO)
			}
			read = append(read, c.String())
		}
		slices.Sort(read)
		recorded := map[string]string{}
		for _, a := range strings.Split(answers, "; ") {
			release, images, _ := strings.Cut(a, ": ")
			recorded[release] = images
		}
		for _, tk := range toolkits {
			if got := shipped(t, tk, words); *update {
				recorded[tk.Release] = got
			} else if want, ok := recorded[tk.Release]; ok && got != want {
				t.Errorf("nvcc %s %s ships %q, and %q is recorded", tk.Release, options, got, want)
			}
		}
		var again []string
		for _, release := range slices.Sorted(maps.Keys(recorded)) {
			want := recorded[release]
			again = append(again, release+": "+want)
			if got := strings.Join(read, " "); got != want && want != "fatal" && !slices.ContainsFunc(s.Codes, func(c gencode.Code) bool { return c.Kind == gencode.Set }) {
				t.Errorf("%s: %q is read, and nvcc %s ships %q", options, got, release, want)
			}
		}
		fmt.Fprintf(&rewritten, "%s => %s\n", options, strings.Join(again, "; "))
	}
	if *update {
		if err := os.WriteFile(file, []byte(rewritten.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
