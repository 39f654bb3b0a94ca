package probe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// gpus queries nvidia-smi for the GPUs of this machine.
func gpus(ctx context.Context, env func(string) string) []gencode.Code {
	smi := find("nvidia-smi", env("PATH"))
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

// GPUs returns a fingerprint of what nvidia-smi would answer from, without starting nvidia-smi. A
// start takes a second where the driver is not kept loaded. The fingerprint covers the driver, its
// GPUs by model and UUID, the devices that this container may open, and nvidia-smi itself. It is
// empty where that cannot be known (WSL, no GPU). root is the root of the file system.
func GPUs(root string, env func(string) string) string {
	gpus, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	devices, _ := filepath.Glob(filepath.Join(root, "dev/nvidia[0-9]*"))
	smi := find("nvidia-smi", env("PATH"))
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
