package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// archProject is a library of one source whose passes warn as wanted.
func archProject(t *testing.T, device, host bool) *e2e.Project {
	source := "__global__ void k(int *p) { p[0] = __CUDA_ARCH__; }\n"
	if device {
		source += "__device__ int d() { int never_used = 1; return 0; }\n"
	}
	if host {
		source += "int h(int n) { unsigned other = 3; return n > other; }\n"
	}
	return fakeSplit(t, map[string]string{"w.cu": source + "int g() { return 1; }\n"})
}

func writeArchs(e *e2e.Project, list []string) {
	var quoted []string
	for _, a := range list {
		quoted = append(quoted, fmt.Sprintf("%q", a))
	}
	e.Write("kernels.hcl", "library \"w\" {\n  sources = [\"w.cu\"]\n  code    = ["+strings.Join(quoted, ", ")+"]\n  flags   = { host = [\"-Wall\"] }\n}\n")
}

// Architectures come, go and change places, with and without a warning in a device pass and in the
// host's: each time the library is that of a build from nothing, and says the same.
func TestArchEdits(t *testing.T) {
	t.Parallel()
	for _, device := range []bool{false, true} {
		for _, host := range []bool{false, true} {
			t.Run(fmt.Sprintf("device %v host %v", device, host), func(t *testing.T) {
				if device != host {
					tooltest.Broad(t)
				}
				t.Parallel()
				e := archProject(t, device, host)
				rng := rand.New(rand.NewPCG(12, 3))
				list := []string{"sm_75", "sm_80"}
				clean := map[string][]byte{}
				for step := range map[bool]int{false: 5, true: 2}[testing.Short()] {
					writeArchs(e, list)
					sameAsClean(e, strings.Join(list, " "), clean)
					list = editedArchs(rng, step, list)
				}
			})
		}
	}
}

// editedArchs adds an architecture at the end first, which is the one whose stub the host code
// includes; then anything.
func editedArchs(rng *rand.Rand, step int, list []string) []string {
	all := []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "compute_90"}
	rest := slices.DeleteFunc(all, func(a string) bool { return slices.Contains(list, a) })
	list = slices.Clone(list)
	switch n := len(list); {
	case step == 0:
		return append(list, "sm_86")
	case n > 1 && (n > 3 || rng.IntN(3) == 0): // first, middle or last
		at := rng.IntN(n)
		return slices.Delete(list, at, at+1)
	case rng.IntN(2) == 0:
		rng.Shuffle(n, func(i, k int) { list[i], list[k] = list[k], list[i] })
		return list
	}
	return slices.Insert(list, rng.IntN(len(list)+1), rest[rng.IntN(len(rest))])
}

// sameAsClean builds here, and for a list that is new elsewhere from nothing, and compares.
func sameAsClean(e *e2e.Project, list string, clean map[string][]byte) {
	e.T.Helper()
	_, printed := e.Run("kbuild", "--progress", "plain")
	if w := strings.Count(string(e.Read("w.cu")), "unsigned other"); strings.Count(printed, "-Wsign-compare") > w {
		e.T.Errorf("%s: the warning of the host code comes more than once:\n%s", list, printed)
	}
	if _, known := clean[list]; !known {
		other := e.In(filepath.Join(e.T.TempDir(), "clean"))
		e2e.CopyTree(e.T, e.Dir, other.Dir)
		other.Run("kbuild", "--no-cache")
		clean[list] = other.Read("build/lib/libw.a")
	}
	if !bytes.Equal(e.Read("build/lib/libw.a"), clean[list]) {
		e.T.Errorf("%s: the library is not that of a clean build", list)
	}
}
