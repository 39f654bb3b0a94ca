package nvcc

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// What nvcc's options say of fatbinary holds for links as for compiles.
func TestLinkPacks(t *testing.T) {
	flags := []string{"-Xfatbin", "-compress-all", "-diag-suppress", "177", "-Xfatbin=-g", "--compress-mode=size", "-no-compress"}
	for emit, want := range map[string]string{
		"": "-Xfatbin -compress-all -Xfatbin=-g --compress-mode=size -no-compress -o", "cubin": "-o"} {
		argv := Driver{Path: "nvcc"}.DeviceLink(DeviceLink{Output: "o", Emit: emit}, toolchain.Options{Flags: flags})
		if got := strings.Join(argv, " "); !strings.Contains(got, " "+want+" o") || emit != "" && strings.Contains(got, "compress") {
			t.Errorf("a link of %q is %s", emit, got)
		}
	}
}
