package plan

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Flags can make a compiler write more than its object: debug information, coverage notes, stack
// usage. They can make a linker write a map. Such files are outputs of the action, beside the
// object where a build without kbuild puts them. They and the object refer to each other by name.
// So the command writes its final paths (Action.InPlace), and nvcc stays unsplit.

// besideObject adds the files that options make a's host compiler write beside the object to the
// outputs of a. It reports whether there are any. flags are the manifest's flags, for positions.
func (ck *checks) besideObject(t *target, a *graph.Action, family string, options []string, flags *manifest.Flags) bool {
	beside := host.BesideObject(family, options, a.Outputs[0])
	ck.checkUnkept(t, a.Name, beside, flags)
	if !beside.Named {
		return false
	}
	ck.checkSources(t, a, beside.Files, flags)
	a.Outputs, a.InPlace = append(a.Outputs, beside.Files...), true
	if beside.Seed && a.Kind == graph.Compile {
		a.Argv = slices.Insert(slices.Clone(a.Argv), 1, "-Xcompiler", ck.seed(t, a.Inputs[0]))
	} else if beside.Seed {
		a.Argv = slices.Insert(slices.Clone(a.Argv), 1, ck.seed(t, a.Inputs[0]))
	}
	if beside.Folder { // programs write profiles into that folder, whatever folder they run in
		a.CwdInKey = true
		a.Env = slices.DeleteFunc(a.Env, func(e string) bool { return e == toolchain.Anywhere })
	}
	return true
}

// seed returns an option that makes gcc derive its unique names from the source, instead of a
// random number. A user's option comes later and wins.
func (g *given) seed(t *target, source string) string {
	return "-frandom-seed=" + fileName(t) + "/" + g.inTree(source)
}

// besideHost is besideObject for a C, C++ or assembler source. The target's attributes may enable
// debug information. No compiler optimises or instruments assembler, and clang splits its debug
// information as gcc does.
func (ck *checks) besideHost(t *target, a *graph.Action, family string, s manifest.Source) {
	options := a.Argv[1:]
	if s.Language == "asm" {
		family, options = "gcc", host.AssemblerOptions(options)
	}
	if len(s.Flags.Host) > 0 {
		ck.besideObject(t, a, family, options, s.Flags)
	}
}

// besideLink is besideObject for a link.
func (ds *diagnostics) besideLink(t *target, a *graph.Action) {
	beside := host.BesideLink(t.Flags.Link)
	ds.checkUnkept(t, a.Name, beside, &t.Flags)
	if beside.Named {
		ds.checkSources(t, a, beside.Files, &t.Flags)
		a.Outputs, a.InPlace = append(a.Outputs, beside.Files...), true
	}
}

// checkSources rejects outputs that would overwrite a source of t.
func (ds *diagnostics) checkSources(t *target, a *graph.Action, files []string, flags *manifest.Flags) {
	for _, f := range files {
		if slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return path.Clean(s.Path) == f }) {
			ds.errorf(t.flag(flags, f), "Name another file.", "%s would write over the source %s", a.Name, f)
		}
	}
}

// checkUnkept rejects an option that writes files that kbuild does not keep.
func (ds *diagnostics) checkUnkept(t *target, name string, beside host.Beside, flags *manifest.Flags) {
	if beside.Unkept != "" {
		ds.errorf(t.flag(flags, beside.Unkept), "Remove it. kbuild keeps the files of -gsplit-dwarf, --coverage, -fstack-usage, -fcallgraph-info, -ftime-trace, "+
			"-fopt-info=FILE, -Wa,-a=FILE and -Wl,-Map=FILE.",
			"%s has the flag %s%s, which writes files that kbuild does not keep", name, beside.Unkept, beside.Why)
	}
}

// notBeside rejects options that write files beside an object that several compiles produce. Time
// traces are allowed.
func (ds *diagnostics) notBeside(t *target, s manifest.Source, options []string) {
	options = slices.DeleteFunc(options, func(o string) bool { return o == toolchain.TimeTrace })
	beside := host.BesideObject("clang", options, "x.o")
	if beside.Named && beside.Unkept == "" {
		i := slices.IndexFunc(options, func(o string) bool { return host.BesideObject("clang", []string{"-g", o}, "x.o").Named })
		ds.errorf(t.flag(s.Flags, options[max(i, 0)]), "Remove it here; a library of C and C++ sources of its own may have it.",
			"%s is compiled by clang for host and GPUs, and %s writes or reads files beside an object", s.Path, options[max(i, 0)])
	}
	ds.checkUnkept(t, s.Path, beside, s.Flags)
}
