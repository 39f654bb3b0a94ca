package fatbin

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// placeholder is what testdata/hiphost.o holds.
const placeholder = "The device code of this object belongs here: kbuild puts it in place of this text.\n"

// newHIPLab is a lab with a clang that compiles HIP, and step.hip.
func newHIPLab(t *testing.T) lab {
	t.Helper()
	l := lab{t: t, dir: t.TempDir(), llvm: tooltest.LLVM(t)}
	l.write("step.hip", testdata(t, "step.hip"))
	l.write("placeholder.hipfb", []byte(placeholder))
	return l
}

func (l lab) clang(args ...string) {
	l.t.Helper()
	l.run(append([]string{"clang++" + l.llvm, "-x", "hip", "-nogpuinc", "-nogpulib"}, args...)...)
}

// host compiles step.hip with the placeholder. The id of a compile is no option of the driver for
// one pass.
func (l lab) host(flags ...string) []byte {
	l.t.Helper()
	flags = append(flags, "--cuda-host-only", "-Xclang", "-cuid=1", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", "placeholder.hipfb")
	l.clang(append(flags, "-c", "step.hip", "-o", "host.o")...)
	return l.read("host.o")
}

// tail is what clang writes behind the bundle: up to 15 it holds device code as a string, with a
// zero, since 17 as bytes.
func (l lab) tail() int {
	l.t.Helper()
	return len(contentOf(l.t, l.host(), bundleSection)) - len(placeholder)
}

// TestWithBundleIsTheCompilers puts the bundle where the compiler puts it: the objects are the
// same.
func TestWithBundleIsTheCompilers(t *testing.T) {
	l := newHIPLab(t)
	tail, major := l.tail(), tooltest.ClangMajor(t)
	for _, mode := range []string{"-O3", "-O0 -g", "-O2 -g -gz", "-O2 -fno-pie -fno-pic", "-O2 -fdata-sections -ffunction-sections",
		"-O2 -mcmodel=large", "-O2 -no-integrated-as", "-O2 -fno-unique-section-names -fno-addrsig", "-O1 -fsanitize=address"} {
		if mode == "-O2 -no-integrated-as" && major > 15 {
			continue // clang 17 gives its device code to the host's assembler
		}
		flags := strings.Fields(mode)
		l.clang(append(flags, "--offload-arch=gfx906", "--offload-arch=gfx90a:xnack-", "-cuid=1", "-c", "step.hip", "-o", "whole.o")...)
		want := l.read("whole.o")
		bundle := contentOf(t, want, bundleSection)
		got, err := BundleCode.Fill(l.host(flags...), placeholder, bundle[:len(bundle)-tail])
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: not the object that the compiler makes of the bundle: %v", mode, err)
		}
	}
}

// TestPlaceholderInHostCode: clang makes one literal of the placeholder and the same text in host
// code, which would then read device code. Where the placeholder is no string they are two.
func TestPlaceholderInHostCode(t *testing.T) {
	l := newHIPLab(t)
	apart := l.tail() == 0
	text := `"` + strings.ReplaceAll(placeholder, "\n", `\n`) + `"`
	for host, want := range map[string]string{
		"const char *text = " + text + ";\n":               "want 1 pointers",
		"const char *text() { return " + text + "; }\n":    "into its middle", // counted from the end of the instruction
		"const char *text = " + text[:9] + text[10:] + ";": "",
	} {
		if apart {
			want = ""
		}
		l.write("step.hip", append(testdata(t, "step.hip"), host...))
		if _, err := BundleCode.Fill(l.host(), placeholder, bundleMagic); !strings.Contains(fmt.Sprint(err), cmp.Or(want, "<nil>")) {
			t.Errorf("%s%v, want %s", host, err, want)
		}
	}
}

// TestAgainstTheBundler holds the reader against clang's own: same ids and sizes.
func TestAgainstTheBundler(t *testing.T) {
	l := newHIPLab(t)
	for _, name := range []string{"hiprdc15.o", "hiprdc19.o", "hip15.bundle"} {
		data := testdata(t, name)
		l.write(name, data)
		f, err := Read(data)
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]int64{}
		for _, img := range f.Members[0].Images {
			ours[img.Code().String()] = img.Size
		}
		theirs := map[string]int64{}
		for _, id := range strings.Fields(l.run("clang-offload-bundler"+l.llvm, "-list", "-type=o", "-input="+name)) {
			if strings.HasPrefix(id, "host-") {
				continue
			}
			l.run("clang-offload-bundler"+l.llvm, "-unbundle", "-type=o", "-targets="+id, "-input="+name, "-output=code")
			theirs[id[strings.Index(id, "gfx"):]] = int64(len(l.read("code")))
		}
		if !maps.Equal(ours, theirs) || len(ours) != 2 {
			t.Errorf("%s: %v, want %v", name, ours, theirs)
		}
	}
}
