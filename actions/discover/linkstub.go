package discover

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Where nvcc links device code as one command, it also compiles link.stub, and searches the
// project's folder for its headers (-I.). It writes no dependency file for that compile. So the
// headers are queried by the compile command of nvcc's dry run, with -M.

// linkStub records what such a link read and probed. stable is false if some of it may have
// appeared while the command ran.
func (d *Discovery) linkStub(ctx context.Context, ran Ran, rec *cache.Record) (stable bool) {
	a := ran.Action
	if a.Kind.Info().Linker != graph.LinkerDriver || !d.drivers.known(a) || a.Tools[0] != "nvcc" {
		return true
	}
	printed, _ := d.Query(ctx, a, slices.Insert(slices.Clone(a.Argv), 1, "--dryrun"), false)
	trace, err := nvcc.ParseDryRun(printed)
	ok := err == nil
	stable = true
	for _, step := range trace.Steps {
		switch {
		case step.Tool == "nvlink":
			stable = d.deviceLibraries(ran, step.Argv, graph.LinkerNVLink, rec) && stable
		case step.Tool == "gcc" && ok:
			ok = d.stub(ctx, a, step.Argv, rec)
		}
	}
	if !ok {
		rec.Discovered = append(rec.Discovered, Never("nvcc does not say what it compiles to link device code"))
	}
	return d.shadows(ran, rec) && stable
}

// stub records the headers of the stub that argv compiles, and their search path.
func (d *Discovery) stub(ctx context.Context, a *graph.Action, argv []string, rec *cache.Record) (ok bool) {
	at := slices.IndexFunc(argv, func(arg string) bool { return path.Base(arg) == "link.stub" })
	if at < 0 {
		return false
	}
	stub := argv[at]
	lists, ok := d.drivers.askSearch(ctx, a, host.AskSearch(argv, []string{stub}, ""))
	printed, _ := d.Query(ctx, a, append(withoutOutput(argv), "-M", "-MG"), false)
	_, deps, err := parseDepfile([]byte(printed))
	if !ok || err != nil {
		return false
	}
	s := newSearch(d.Tree, []string{path.Dir(stub)})
	for _, dep := range deps {
		name := d.Name(dep)
		digest, err := d.Digest(name)
		if err != nil {
			continue // the command itself generates it
		}
		Add(rec, cache.FileDigest{Path: name, Digest: digest})
		for _, rel := range spellings(name, lists[0].Dirs) {
			s.absent(rel, name)
		}
	}
	rec.Search = append(rec.Search, strings.Join(lists[0].Dirs, "\n"))
	rec.Absent = append(append(rec.Absent, lists[0].Missing...), stub+pch)
	rec.Absent = append(rec.Absent, slices.Collect(maps.Keys(s.missing))...)
	slices.Sort(rec.Absent)
	return true
}

// withoutOutput returns a compile command without its -c and -o options.
func withoutOutput(argv []string) []string {
	out := slices.DeleteFunc(slices.Clone(argv), func(arg string) bool { return arg == "-c" })
	if i := slices.Index(out, "-o"); i >= 0 && i+1 < len(out) {
		out = slices.Delete(out, i, i+2)
	}
	return out
}
