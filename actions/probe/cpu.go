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

// -march=native is the same text on two machines that share a cache, but yields different code. The
// processor that the compilers detect is therefore an input of whatever is compiled with it. It is
// queried in each build that makes a plan, since the memo may be shared between machines too.

// nativeCPU returns a digest of what the compilers of f expand -march=native to.
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
	w := newHostEnv(ctx, r)
	for _, c := range slices.Compact(compilers) {
		if c == "" {
			continue
		}
		printed, _ := w.output(slices.Concat([]string{c, "-###", "-S", "-x", "c", os.DevNull, "-o", os.DevNull}, option)...)
		for _, word := range strings.Fields(printed) {
			if !strings.Contains(word, "/") { // omit the paths of its parts
				fmt.Fprintln(h, word)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// CPU returns a fingerprint of the processor without starting a program. It distinguishes
// processors at least as well as compilers do. It covers the first processor in /proc/cpuinfo, less
// the values that change at run time.
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
