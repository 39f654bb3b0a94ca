package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A walk that stops where nothing new can come gives the folders of the whole closure in its order:
// users before what they use.
func TestOrderOfExports(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shorter := 0
	for n := range 20000 {
		w := &walker{}
		var all []*target
		for range 3 + rng.IntN(6) {
			u := &target{Target: toolchain.Target{Target: &manifest.Target{}}}
			for range rng.IntN(4) {
				u.include = appendNew(u.include, fmt.Sprint("dir", rng.IntN(4)))
			}
			if rng.IntN(6) == 0 {
				u.headers = []string{fmt.Sprint("h", rng.IntN(2))}
			}
			for _, d := range all {
				if rng.IntN(3) == 0 {
					u.deps = append(u.deps, d)
				}
			}
			rng.Shuffle(len(u.deps), func(i, k int) { u.deps[i], u.deps[k] = u.deps[k], u.deps[i] })
			all = append(all, u)
		}
		top := all[len(all)-1]
		folders := func(list []*target) (dirs, headers []string) {
			for _, u := range list {
				dirs, headers = appendNew(dirs, u.include...), appendNew(headers, u.headers...)
			}
			slices.Sort(headers)
			return dirs, headers
		}
		some, whole := w.exporters(top), w.closure(top)
		dirs, headers := folders(some)
		wantDirs, wantHeaders := folders(whole)
		if !slices.Equal(dirs, wantDirs) || !slices.Equal(headers, wantHeaders) {
			t.Fatalf("graph %d: %v %v, want %v %v", n, dirs, headers, wantDirs, wantHeaders)
		}
		if len(some) < len(slices.DeleteFunc(whole, func(u *target) bool { return len(u.include)+len(u.headers) == 0 })) {
			shorter++
		}
	}
	if shorter == 0 {
		t.Error("no walk stopped")
	}
}
