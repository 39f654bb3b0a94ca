package fatbin

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestAgainstCuobjdump holds the reader against NVIDIA's own: same members, images, order and
// options.
func TestAgainstCuobjdump(t *testing.T) {
	tooltest.Need(t, "cuobjdump")
	for _, tt := range files {
		switch tt.name {
		case "bare.ltoir", "specific.ltoir", "plain.o":
			continue // cuobjdump does not take them
		case "zstd.fatbin", "lz4.fatbin", "none.fatbin", "concat.fatbin", "concat.o":
			continue // of 13.5: 11.8 and 12.4 do not know all that is in them, and 13.5 says sm_100 for sm_100f
		}
		name := filepath.Join("testdata", tt.name)
		out, err := exec.Command("cuobjdump", "-all", name).CombinedOutput()
		if err != nil {
			t.Fatalf("cuobjdump %s: %v\n%s", name, err, out)
		}
		f, err := ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs(string(out)), ours(f)); diff != "" {
			t.Errorf("%s (-cuobjdump +kbuild):\n%s", tt.name, diff)
		}
	}
}

// theirs reads the words of cuobjdump. It names the options of PTX and of LTO-IR, and says
// "arch = sm_80" for every kind.
func theirs(out string) []string {
	var list []string
	var member, kind string
	for _, line := range strings.Split(out, "\n") {
		field, value, _ := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "member "):
			member = strings.TrimSuffix(line[strings.LastIndex(line, ".a:")+3:], ":")
		case strings.HasPrefix(line, "Fatbin "):
			kind = strings.Fields(line)[1]
		case field == "arch":
			list = append(list, fmt.Sprintf("%s %s %s", member, kind, value))
		case strings.HasPrefix(line, "compressed"):
			list[len(list)-1] += " compressed"
		case strings.HasSuffix(field, "Options"):
			list[len(list)-1] += " " + strings.TrimSpace(value)
		}
	}
	return list
}

func ours(f File) []string {
	kinds := map[gencode.Kind]string{gencode.PTX: "ptx", gencode.SASS: "elf", gencode.LTO: "nvvm"}
	var list []string
	for _, m := range f.Members {
		for _, i := range m.Images {
			s := fmt.Sprintf("%s %s %s", m.Name, kinds[i.Kind], i.Code().As(gencode.SASS))
			if i.Unpacked > 0 {
				s += " compressed"
			}
			if i.Options != "" {
				s += " " + i.Options
			}
			list = append(list, s)
		}
	}
	return list
}
