package engine

import (
	"context"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Doctor calls tell with what it finds of a build's requirements. ok is true if all of them are
// met. Without a valid manifest it checks for CUDA and GPUs.
func (w *Workspace) Doctor(ctx context.Context, tell func(probe.Finding)) (ok bool, err error) {
	cache, err := w.ActionCache()
	if err != nil {
		return false, err
	}
	r := probe.Request{Root: w.Manifest.Dir, Env: w.Env.Get, NeedCUDA: true, NeedNative: true}
	var misparsed func(plan.Facts) []string
	if p, diags := manifest.Load(w.Manifest); !diags.HasErrors() {
		r = w.Request(p)
		r.NeedCUDA, r.NeedNative, r.MemoPath = r.NeedCUDA || !r.NeedAMD, true, ""
		misparsed = func(f plan.Facts) (why []string) {
			for _, v := range w.storedSplitFailures(nil, probe.Fingerprint(f, w.keyEnv())) {
				why = append(why, v.String())
			}
			return why
		}
	}
	return probe.Doctor(ctx, tell, r, cache, misparsed), nil
}
