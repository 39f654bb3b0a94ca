package discover

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// The compiler itself reports its search path, after a command that ran. It is queried once in a
// run of kbuild for each set of flags that decide the path. A query takes some 5 ms of processor
// time; a target has one, or one for each language. The answer goes into the record, so a build
// that runs nothing queries nothing.

// drivers queries the compilers of a project.
type drivers struct {
	tree    Tree
	tools   map[string]string // fingerprints
	keyEnv  []string
	folder  cache.Shards[string, string] // by query: where drivers look for programs and libraries
	answers sync.Map                     // of *searchAnswer, by query
}

// searchAnswer holds the search path of a command's compilers, once they were queried.
type searchAnswer struct {
	once  sync.Once
	lists []host.Search
	ok    bool
}

// searches returns the lists of folders that the command of a searches, one for each compiler that
// it runs; ok is false if a compiler does not report them.
func (d *drivers) searches(ctx context.Context, a *graph.Action) (lists []host.Search, ok bool) {
	files := slices.Concat(a.Inputs, a.Outputs, a.Pass().UnkeyedPaths, []string{a.Depfile})
	for _, s := range a.Pass().Staged {
		files = append(files, graph.StageDir+"/"+s.Name)
	}
	question := host.AskSearch(a.Argv, files, "")
	put := func() ([]host.Search, bool) { return d.askSearch(ctx, a, question) }
	if isNVCC(a) {
		question = dryRun(a)
		put = func() ([]host.Search, bool) { return d.askNVCC(ctx, a) }
	}
	key := strings.Join(append(question, a.Env...), "\x00")
	for range 2 {
		answer, _ := d.answers.LoadOrStore(key, new(searchAnswer))
		known := answer.(*searchAnswer)
		known.once.Do(func() { known.lists, known.ok = put() })
		if !d.appeared(known.lists) {
			return known.lists, known.ok
		}
		d.answers.CompareAndDelete(key, answer) // this build created a folder that was absent
	}
	return nil, false
}

// isNVCC reports whether a is a compile by nvcc as one command.
func isNVCC(a *graph.Action) bool {
	return a.Tools[0] == "nvcc" && a.Kind.Info().CompilesSource()
}

// dryRun returns the command for nvcc's dry run of such a compile.
func dryRun(a *graph.Action) []string {
	return append(a.Argv[:1:1], nvcc.Query(a.Argv, a.Inputs[0], a.Outputs[0], a.Depfile)...)
}

// hostCompilers returns the commands that nvcc preprocesses such a compile with.
func (d *drivers) hostCompilers(ctx context.Context, a *graph.Action) ([][]string, error) {
	printed, _ := d.tree.Query(ctx, a, dryRun(a), false)
	return nvcc.Preprocesses(printed)
}

// appeared reports whether a folder exists that was absent when a compiler was queried.
func (d *drivers) appeared(lists []host.Search) bool {
	come := func(dir string) bool { return d.tree.Listing.Exists(dir) && d.tree.isFolder(dir) }
	return slices.ContainsFunc(lists, func(s host.Search) bool { return slices.ContainsFunc(s.Missing, come) })
}

// askSearch queries a gcc or clang. Its preprocessed text, which is large for CUDA, is dropped.
func (d *drivers) askSearch(ctx context.Context, a *graph.Action, question []string) ([]host.Search, bool) {
	printed, _ := d.tree.Query(ctx, a, question, true)
	s, ok := host.ParseSearch(printed)
	s.Placed = slices.ContainsFunc(slices.Concat(s.Dirs, s.Missing), d.tree.spells)
	for i, dir := range s.Dirs {
		s.Dirs[i] = d.tree.Name(dir)
	}
	s.Dirs = compact(s.Dirs)
	for i, dir := range s.Missing {
		s.Missing[i] = d.tree.Name(dir)
	}
	return []host.Search{s}, ok
}

// askNVCC queries the compilers that nvcc preprocesses with, as its dry run names them.
func (d *drivers) askNVCC(ctx context.Context, a *graph.Action) (lists []host.Search, ok bool) {
	argvs, err := d.hostCompilers(ctx, a)
	if err != nil || len(argvs) == 0 {
		return nil, false
	}
	asked := map[string]bool{}
	for _, argv := range argvs {
		q := host.AskSearch(argv, []string{nvcc.QuerySource}, "")
		if key := strings.Join(q, "\x00"); !asked[key] {
			asked[key] = true
			list, ok := d.askSearch(ctx, a, q)
			if !ok {
				return nil, false
			}
			lists = append(lists, list...)
		}
	}
	return lists, true
}

// folders returns where the driver that a runs by argv looks for programs and libraries. The lists
// are in the driver's order.
func (d *drivers) folders(ctx context.Context, a *graph.Action, argv []string) (host.Folders, bool) {
	question := host.AskFolders(argv)
	key := strings.Join(append(question, a.Env...), "\x00")
	printed, known := d.folder.Load(key)
	if !known {
		printed, _ = d.tree.Query(ctx, a, question, false)
		d.folder.LoadOrStore(key, printed)
	}
	f, ok := host.ParseFolders(printed)
	for _, list := range [2][]string{f.Programs, f.Libraries} {
		for i, dir := range list {
			list[i] = d.tree.Name(dir)
		}
	}
	return f, ok
}

// known reports whether the compiler of a can be queried, which requires its fingerprint.
func (d *drivers) known(a *graph.Action) bool {
	return len(a.Tools) > 0 && d.tools[a.Tools[0]] != ""
}
