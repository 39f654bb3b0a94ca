package probe

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// Doctor returns what a build would find, with a fix for each fault, and the facts. It probes again,
// whatever a memo holds.
func Doctor(ctx context.Context, r Request) (list []find.Finding, facts plan.Facts) {
	if err := checkTemp(); err != nil {
		return []find.Finding{{Status: find.Fails, What: "temporary files", Text: err.Error()}}, facts
	}
	f, h := newFinder(ctx, r)
	facts = r.collect(f, h)
	if err := ctx.Err(); err != nil {
		return []find.Finding{{Status: find.Fails, Text: err.Error()}}, facts
	}
	add := func(status, what, text string) {
		list = append(list, find.Finding{Status: status, What: what, Text: text})
	}
	list = append(r.Needs.Doctor(f, &facts.Installed), find.Check("C++ compiler", facts.CXX.Error, find.Described(facts.CXX)),
		find.Check("C compiler", facts.CC.Error, find.Described(facts.CC)),
		find.Check("archiver", facts.AR.Error, find.Described(facts.AR)))
	if lto := facts.HostLTO; lto.Error != "" {
		add(find.Warns, "host_lto", lto.Error)
	} else if lto.AR.Path != "" {
		add(find.OK, "host_lto", find.Described(lto.AR))
	}
	if facts.NativeGPU = gpus(ctx, r.Env); len(facts.NativeGPU) == 0 {
		add(find.Warns, "GPU", "none here; that is fine for building, code = [\"native\"] needs one")
	} else {
		add(find.OK, "GPU", toolchain.Range(facts.NativeGPU))
	}
	return list, facts
}

// Unwritable returns why files cannot be created in the folder of the cache, or "".
func Unwritable(dir string) string {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, "doctor-*"); err == nil {
			f.Close()
			os.Remove(f.Name())
			return ""
		}
	}
	return fmt.Sprintf("%s; set KBUILD_CACHE_DIR to a folder you can write", strings.TrimSpace(err.Error()))
}
