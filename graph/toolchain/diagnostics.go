package toolchain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Diagnostics is a list of problems with a manifest.
type Diagnostics struct{ List manifest.Diagnostics }

// Errorf adds an error.
func (ds *Diagnostics) Errorf(pos manifest.Pos, detail, format string, args ...any) {
	ds.List = append(ds.List, manifest.Diagnostic{Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

// Warnf adds a warning.
func (ds *Diagnostics) Warnf(pos manifest.Pos, detail, format string, args ...any) {
	ds.Errorf(pos, detail, format, args...)
	ds.List[len(ds.List)-1].Severity = manifest.Warning
}

// Bothf adds an error about two positions that conflict.
func (ds *Diagnostics) Bothf(pos, also manifest.Pos, say, detail, format string, args ...any) {
	ds.Errorf(pos, detail, format, args...)
	ds.List[len(ds.List)-1].Also = manifest.Place{Pos: also, Say: say}
}

// HasErrors reports whether one of the problems is an error.
func (ds *Diagnostics) HasErrors() bool { return ds.List.HasErrors() }

// CheckDepends rejects flags that make a compiler omit headers from its dependency file. Given -MD
// and -MMD in any order, gcc obeys -MMD and omits all headers of the system and of -isystem.
func (ds *Diagnostics) CheckDepends(t *Target, flags ...[]string) {
	for _, f := range slices.Concat(flags...) {
		if strings.Contains(f, "-MMD") || strings.Contains(f, "-Wp,-M") || f == "-M" || f == "-MM" {
			ds.Errorf(t.Attr("flags"), "Remove it: kbuild asks for all dependencies itself.",
				"%s has the flag %s, with which a compiler does not list all files that it reads", t.Label, f)
		}
	}
}

// Flags can make a compiler write more than its object: debug information, coverage notes, stack
// usage. They can make a linker write a map. Such files are outputs of the action, beside the
// object where a build without kbuild puts them. They and the object refer to each other by name.
// So the command writes its final paths (Action.InPlace), and nvcc stays unsplit.

// BesideObject adds the files that options make a's host compiler write beside the object to the
// outputs of a. It reports whether there are any. seed, if the compiler draws random names, is the
// option that makes it derive them from the source; a user's option comes later and wins. flags are
// the manifest's flags, for positions.
func (ds *Diagnostics) BesideObject(t *Target, a *graph.Action, family string, options []string, flags *manifest.Flags, seed ...string) bool {
	beside := host.BesideObject(family, options, a.Outputs[0])
	ds.addBeside(t, a, beside, flags)
	if beside.Seed && beside.Named {
		a.Argv = slices.Insert(slices.Clone(a.Argv), 1, seed...)
	}
	if beside.Folder && beside.Named { // programs write profiles into that folder, whatever folder they run in
		a.CwdInKey = true
		a.Env = slices.DeleteFunc(a.Env, func(e string) bool { return e == Anywhere })
	}
	return beside.Named
}

// Seed returns an option that makes gcc derive its unique names from the source, instead of a
// random number.
func (l Layout) Seed(t *Target, source string) string {
	return "-frandom-seed=" + t.Folder() + "/" + l.InTree(source)
}

// BesideLink is BesideObject for a link.
func (ds *Diagnostics) BesideLink(t *Target, a *graph.Action) {
	ds.addBeside(t, a, host.BesideLink(t.Flags.Link), &t.Flags)
}

// addBeside adds files to the outputs of a.
func (ds *Diagnostics) addBeside(t *Target, a *graph.Action, beside host.Beside, flags *manifest.Flags) {
	if ds.CheckUnkept(t, a.Name, beside, flags); beside.Named {
		ds.CheckSources(t, a, beside.Files, flags)
		a.Outputs, a.InPlace = append(a.Outputs, beside.Files...), true
	}
}

// CheckSources rejects outputs that would overwrite a source of t.
func (ds *Diagnostics) CheckSources(t *Target, a *graph.Action, files []string, flags *manifest.Flags) {
	for _, f := range files {
		if slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return path.Clean(s.Path) == f }) {
			ds.Errorf(t.FlagPos(flags, f), "Name another file.", "%s would write over the source %s", a.Name, f)
		}
	}
}

// CheckUnkept rejects an option that writes files that kbuild does not keep.
func (ds *Diagnostics) CheckUnkept(t *Target, name string, beside host.Beside, flags *manifest.Flags) {
	if beside.Unkept != "" {
		ds.Errorf(t.FlagPos(flags, beside.Unkept), "Remove it. kbuild keeps the files of -gsplit-dwarf, --coverage, -fstack-usage, -fcallgraph-info, -ftime-trace, "+
			"-fopt-info=FILE, -Wa,-a=FILE and -Wl,-Map=FILE.",
			"%s has the flag %s%s, which writes files that kbuild does not keep", name, beside.Unkept, beside.Why)
	}
}

// NotBeside rejects options that write files beside an object that several compiles produce. Time
// traces are allowed.
func (ds *Diagnostics) NotBeside(t *Target, s manifest.Source, options []string) {
	options = slices.DeleteFunc(options, func(o string) bool { return o == TimeTrace })
	beside := host.BesideObject("clang", options, "x.o")
	if beside.Named && beside.Unkept == "" {
		i := slices.IndexFunc(options, func(o string) bool { return host.BesideObject("clang", []string{"-g", o}, "x.o").Named })
		ds.Errorf(t.FlagPos(s.Flags, options[max(i, 0)]), "Remove it here; a library of C and C++ sources of its own may have it.",
			"%s is compiled by clang for host and GPUs, and %s writes or reads files beside an object", s.Path, options[max(i, 0)])
	}
	ds.CheckUnkept(t, s.Path, beside, s.Flags)
}
