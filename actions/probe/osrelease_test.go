package probe

import (
	"strings"
	"testing"
)

// The packages of each distribution, as apt-cache madison shows them: hipcc of one LLVM, and
// nothing without a version beside it.
func TestInstallHIP(t *testing.T) {
	for _, tt := range []struct{ release, want string }{
		{"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nID=debian\n", "apt install hipcc rocm-device-libs clang-15 lld-15 libamdhip64-dev"},
		{"PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION_ID=\"13\"\nID=debian\n", "apt install hipcc rocm-device-libs-17 clang-17 lld-17 libamdhip64-dev"},
		{"PRETTY_NAME=\"Debian GNU/Linux forky/sid\"\nVERSION_CODENAME=forky\nID=debian\n", "apt install hipcc rocm-device-libs-21 clang-21 lld-21 libamdhip64-dev"},
		{"PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nVERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n", "apt install hipcc rocm-device-libs-17 clang-17 lld-17 libamdhip64-dev"},
		{"PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nVERSION_ID=\"22.04\"\nID=ubuntu\nID_LIKE=debian\n", "Ubuntu 22.04.5 LTS has no package of it"},
		{"NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n", "apt install hipcc libamdhip64-dev, which bring"},
		{"ID=fedora\nVERSION_ID=42\n", "see rocm.docs.amd.com"},
		{"", "see rocm.docs.amd.com"},
	} {
		got := installHIP(tt.release)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%q: %s, want %s", tt.release, got, tt.want)
		}
		for _, word := range strings.Fields(got) {
			if word == "lld" || word == "llvm" {
				t.Errorf("%q: %s is of whatever version: %s", tt.release, word, got)
			}
		}
	}
}
