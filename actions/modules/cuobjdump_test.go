package modules

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestAgainstCuobjdump holds the reader of cubins against NVIDIA's own: same kernels, same
// parameters.
func TestAgainstCuobjdump(t *testing.T) {
	tooltest.Need(t, "cuobjdump")
	name := filepath.Join("testdata", "11.8.sm_80.cubin")
	out, err := exec.Command("cuobjdump", "-elf", name).CombinedOutput()
	if err != nil {
		t.Fatalf("cuobjdump %s: %v\n%s", name, err, out)
	}
	a, err := Describe(testdata(t, filepath.Base(name)))
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, k := range a.Kernels {
		for _, p := range k.Params {
			ours = append(ours, fmt.Sprintf("%s %d: %d+%d", k.Name, p.Index, p.Offset, p.Size))
		}
		if len(k.Params) > 0 { // it does not say 0
			ours = append(ours, fmt.Sprintf("%s: %d", k.Name, k.ParamBytes))
		}
	}
	slices.Sort(ours)
	if diff := cmp.Diff(theirs(string(out)), ours); diff != "" {
		t.Errorf("-cuobjdump +kbuild:\n%s", diff)
	}
}

var (
	theirParam = regexp.MustCompile(`Ordinal : 0x(\w+)\s+Offset  : 0x(\w+)\s+Size    : 0x(\w+)`)
	theirBytes = regexp.MustCompile(`Value:\s+0x(\w+)`)
)

// theirs reads the words of cuobjdump -elf.
func theirs(out string) (list []string) {
	var kernel, attribute string
	hex := func(s string) uint64 {
		n, _ := strconv.ParseUint(s, 16, 32)
		return n
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, ".nv.info."); ok {
			kernel = strings.TrimSpace(name)
		}
		if strings.Contains(line, "EIATTR_") {
			attribute = strings.TrimSpace(line[strings.Index(line, "EIATTR_"):])
		}
		if m := theirParam.FindStringSubmatch(line); m != nil {
			list = append(list, fmt.Sprintf("%s %d: %d+%d", kernel, hex(m[1]), hex(m[2]), hex(m[3])))
		}
		if m := theirBytes.FindStringSubmatch(line); m != nil && attribute == "EIATTR_CBANK_PARAM_SIZE" {
			list = append(list, fmt.Sprintf("%s: %d", kernel, hex(m[1])))
		}
	}
	slices.Sort(list)
	return list
}
