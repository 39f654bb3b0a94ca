package fatbin

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"
)

// placeholder is what testdata/hiphost.o holds.
const placeholder = "The device code of this object belongs here: kbuild puts it in place of this text.\n"

// newHIPLab is a lab with a clang that compiles HIP, and step.hip.
func newHIPLab(t *testing.T) lab {
	t.Helper()
	l := labWith(t, "KBUILD_REQUIRE_HIP", "clang++-15", "ld.lld-15", "clang-offload-bundler-15")
	l.write("step.hip", testdata(t, "step.hip"))
	l.write("placeholder.hipfb", []byte(placeholder))
	return l
}

func (l lab) clang(args ...string) {
	l.t.Helper()
	l.run(append([]string{"clang++-15", "-x", "hip", "-nogpuinc", "-nogpulib"}, args...)...)
}

// TestWithBundleIsTheCompilers puts the bundle where the compiler puts it: the objects are the same.
func TestWithBundleIsTheCompilers(t *testing.T) {
	l := newHIPLab(t)
	for _, mode := range []string{"-O3", "-O0 -g", "-O2 -g -gz", "-O2 -fno-pie -fno-pic", "-O2 -fdata-sections -ffunction-sections",
		"-O2 -mcmodel=large", "-O2 -no-integrated-as", "-O2 -fno-unique-section-names -fno-addrsig", "-O1 -fsanitize=address"} {
		host := append(strings.Fields(mode), "-c", "step.hip", "-o")
		l.clang(append(host, "whole.o", "--offload-arch=gfx906", "--offload-arch=gfx90a:xnack-", "-cuid=1")...)
		want := l.read("whole.o")
		bundle := contentOf(t, want, bundleSection)
		l.clang(append(host, "host.o", "--cuda-host-only", "-Xclang", "-cuid=1", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", "placeholder.hipfb")...)
		got, err := WithBundle(l.read("host.o"), placeholder, bundle[:len(bundle)-1])
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: not the object that the compiler makes of the bundle: %v", mode, err)
		}
	}
}

// TestPlaceholderInHostCode: clang makes one literal of the placeholder and the same text in host code, which
// would then read device code.
func TestPlaceholderInHostCode(t *testing.T) {
	l := newHIPLab(t)
	text := `"` + strings.ReplaceAll(placeholder, "\n", `\n`) + `"`
	for host, want := range map[string]string{
		"const char *text = " + text + ";\n":               "something else than",
		"const char *text() { return " + text + "; }\n":    "into its middle", // counted from the end of the instruction
		"const char *text = " + text[:9] + text[10:] + ";": "",
	} {
		l.write("step.hip", append(testdata(t, "step.hip"), host...))
		l.clang("-c", "step.hip", "-o", "host.o", "--cuda-host-only", "-Xclang", "-cuid=1", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", "placeholder.hipfb")
		if _, err := WithBundle(l.read("host.o"), placeholder, bundleMagic); !strings.Contains(fmt.Sprint(err), cmp.Or(want, "<nil>")) {
			t.Errorf("%s%v, want %s", host, err, want)
		}
	}
}
