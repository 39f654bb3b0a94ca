package build

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// Where nvcc links device code as one command it compiles link.stub too, and searches the project's folder for its headers (-I.). It writes
// no dependency file of that, so the compiler is asked for what the stub includes: by the command that nvcc says it would run, with -M.

// lookedForStub fills in what such a link took in and looked for. stable is false if some of it may have come while the command ran.
func (r *Runner) lookedForStub(ctx context.Context, a *graph.Action, rec *cache.Record, start cache.Moment) (stable bool) {
	if a.Kind != graph.DeviceLink || !r.known(a) || a.Tools[0] != "nvcc" {
		return true
	}
	d, err := nvcc.ParseDryRun(r.answer(ctx, a, slices.Insert(slices.Clone(a.Argv), 1, "--dryrun")))
	ok := err == nil
	for _, step := range d.Steps {
		switch {
		case step.Tool == "nvlink":
			rec.Absent = append(rec.Absent, r.absentLibs(step.Argv)...)
		case step.Tool == "gcc" && ok:
			ok = r.stub(ctx, a, step.Argv, rec)
		}
	}
	if !ok {
		rec.Discovered = append(rec.Discovered, never("nvcc does not say what it compiles to link device code"))
	}
	return r.shadows(a, rec, start)
}

// stub notes the headers of the stub that argv compiles, and where they are searched.
func (r *Runner) stub(ctx context.Context, a *graph.Action, argv []string, rec *cache.Record) (ok bool) {
	at := slices.IndexFunc(argv, func(arg string) bool { return path.Base(arg) == "link.stub" })
	if at < 0 {
		return false
	}
	stub := argv[at]
	lists, ok := r.askSearch(ctx, a, host.AskSearch(argv, []string{stub}, ""))
	question := append(withoutOutput(argv), "-M", "-MG")
	_, deps, err := run.ParseDepfile([]byte(r.answer(ctx, a, question)))
	if !ok || err != nil {
		return false
	}
	s := search{r: r, missing: map[string]bool{}, others: map[string]bool{}}
	s.in([]string{path.Dir(stub)})
	for _, d := range deps {
		name := r.name(d)
		digest, err := r.Files.Digest(name)
		if err != nil {
			continue // what the command itself makes
		}
		if !discovers(rec, name) {
			rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: name, Digest: digest})
		}
		for _, rel := range spellings(name, lists[0].Dirs) {
			s.elsewhere(rel, name)
		}
	}
	rec.Search = append(rec.Search, strings.Join(lists[0].Dirs, "\n"))
	rec.Absent = append(append(rec.Absent, lists[0].Missing...), stub+pch)
	for p := range s.missing {
		rec.Absent = append(rec.Absent, p)
	}
	slices.Sort(rec.Absent)
	return true
}

// withoutOutput is the command of a compile without what it makes.
func withoutOutput(argv []string) (out []string) {
	for i := 0; i < len(argv); i++ {
		switch argv[i] {
		case "-o":
			i++
		case "-c":
		default:
			out = append(out, argv[i])
		}
	}
	return out
}
