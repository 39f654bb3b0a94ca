package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// diagnostics collects the problems of a plan, each once: every dependent of a shared library finds
// the same fault in it.
type diagnostics struct {
	list     manifest.Diagnostics
	reported map[manifest.Diagnostic]bool
}

func (ds *diagnostics) errorf(pos manifest.Pos, detail, format string, args ...any) {
	ds.add(manifest.Diagnostic{Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (ds *diagnostics) warnf(pos manifest.Pos, detail, format string, args ...any) {
	ds.add(manifest.Diagnostic{Severity: manifest.Warning, Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

// bothf reports two positions that conflict.
func (ds *diagnostics) bothf(pos, also manifest.Pos, say, detail, format string, args ...any) {
	ds.add(manifest.Diagnostic{Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail, Also: manifest.Place{Pos: also, Say: say}})
}

func (ds *diagnostics) add(d manifest.Diagnostic) {
	if ds.reported[d] {
		return
	}
	if ds.reported == nil {
		ds.reported = map[manifest.Diagnostic]bool{}
	}
	ds.reported[d] = true
	ds.list = append(ds.list, d)
}
