package probe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// -march=native is the same text on two machines that share a cache, and other code. So what the
// compilers make of it on this one is a tool of whatever is compiled with it. It is asked for in
// each build that makes a plan: the memo of tools may be shared as well.

// nativeCPU is a digest of what the compilers of f take the processor for.
func nativeCPU(ctx context.Context, r Request, f plan.Facts) string {
	option := []string{"-march=native", "-mtune=native"}
	if runtime.GOARCH != "amd64" {
		option = []string{"-mcpu=native"}
	}
	compilers := []string{f.CXX.Path, f.CC.Path}
	if f.HIP != nil {
		compilers = append(compilers, f.HIP.Clang.Path)
	}
	slices.Sort(compilers)
	h := sha256.New()
	w := newWorld(ctx, r)
	for _, c := range slices.Compact(compilers) {
		if c == "" {
			continue
		}
		said, _ := w.output(slices.Concat([]string{c, "-###", "-S", "-x", "c", os.DevNull, "-o", os.DevNull}, option)...)
		for _, word := range strings.Fields(said) {
			if !strings.Contains(word, "/") { // less the places of its parts
				fmt.Fprintln(h, word)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// CPU tells processors apart at least as well as compilers do, and starts nothing: the first of
// those in /proc/cpuinfo, less what it measures as it runs.
func CPU(root string) string {
	text, err := regular.Read(filepath.Join(root, "proc/cpuinfo"))
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), "\n\n")
	h := sha256.New()
	for line := range strings.Lines(first) {
		if name, _, _ := strings.Cut(line, "\t"); !strings.HasSuffix(name, "MHz") && name != "bogomips" && name != "BogoMIPS" {
			fmt.Fprint(h, line)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
