package probe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// gpus queries nvidia-smi for the GPUs of this machine.
func gpus(ctx context.Context, env func(string) string) []gencode.Code {
	smi := inPath("nvidia-smi", env("PATH"))
	if smi == "" {
		return nil
	}
	out, err := exec.CommandContext(ctx, smi, "--query-gpu=compute_cap", "--format=csv,noheader").Output()
	if err != nil {
		return nil
	}
	return capabilities(string(out))
}

// capabilities parses lines such as 9.0, one per GPU, into a sorted set of codes.
func capabilities(text string) []gencode.Code {
	var codes []gencode.Code
	for _, line := range strings.Fields(text) {
		if c, err := gencode.Parse("sm_" + strings.ReplaceAll(line, ".", "")); err == nil {
			codes = append(codes, c)
		}
	}
	slices.SortFunc(codes, gencode.Compare)
	return slices.Compact(codes)
}

// inPath returns the path of a program in a PATH, or "".
func inPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && filepath.IsAbs(dir) && !info.IsDir() && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// GPUs returns a fingerprint of what nvidia-smi would answer from, without starting nvidia-smi. A
// start takes a second where the driver is not kept loaded. The fingerprint covers the driver, its
// GPUs by model and UUID, the devices that this container may open, and nvidia-smi itself. It is
// empty where that cannot be known (WSL, no GPU). root is the root of the file system.
func GPUs(root string, env func(string) string) string {
	gpus, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	devices, _ := filepath.Glob(filepath.Join(root, "dev/nvidia[0-9]*"))
	smi := inPath("nvidia-smi", env("PATH"))
	if len(gpus) == 0 || len(devices) == 0 || smi == "" {
		return ""
	}
	h := sha256.New()
	for _, f := range append(gpus, filepath.Join(root, "proc/driver/nvidia/version")) {
		text, err := os.ReadFile(f)
		if err != nil {
			return ""
		}
		fmt.Fprintf(h, "%q %q\n", f, text)
	}
	for _, f := range append(devices, smi) {
		info, err := os.Stat(f)
		if err != nil {
			return ""
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return ""
		}
		fmt.Fprintf(h, "%q %v %d", f, info.Mode(), st.Rdev)
		if f == smi {
			fmt.Fprintf(h, " %d %d", info.Size(), info.ModTime().UnixNano())
		}
		fmt.Fprintln(h)
	}
	return string(h.Sum(nil))
}

// AnyGPU reports whether a device exists that a CUDA or HIP program could use: from NVIDIA, through
// WSL, or from AMD. root is the root of the file system.
func AnyGPU(root string) bool {
	for _, device := range []string{"dev/nvidia[0-9]*", "dev/dxg", "dev/kfd"} {
		if found, _ := filepath.Glob(filepath.Join(root, device)); len(found) > 0 {
			return true
		}
	}
	return false
}

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
	for _, tc := range f.Toolchains() {
		compilers = append(compilers, tc.Info().CXX.Path)
	}
	slices.Sort(compilers)
	h := sha256.New()
	finder, _ := newFinder(ctx, r)
	for _, c := range slices.Compact(compilers) {
		if c == "" {
			continue
		}
		printed, _ := finder.Output(slices.Concat([]string{c, "-###", "-S", "-x", "c", os.DevNull, "-o", os.DevNull}, option)...)
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
	text := headOf(filepath.Join(root, "proc/cpuinfo"), 1<<14) // it takes long for 256 processors
	if text == "" {
		return "unknown"
	}
	first, _, _ := strings.Cut(text, "\n\n")
	h := sha256.New()
	for line := range strings.Lines(first) {
		if name, _, _ := strings.Cut(line, "\t"); !strings.HasSuffix(name, "MHz") && name != "bogomips" && name != "BogoMIPS" {
			fmt.Fprint(h, line)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
