package discover

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// The compiler itself reports its search path, after a command that ran. It is queried once in a
// run of kbuild for each set of flags that decide the path. A query takes some 5 ms of processor
// time; a target has one, or one for each language. The answer goes into the record, so a build
// that runs nothing queries nothing.

// drivers queries the compilers of a project, and knows where they and linkers search.
type drivers struct {
	Config
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
	if isNVCC(a) {
		question = dryRun(a)
	}
	key := strings.Join(append(question, a.Env...), "\x00")
	for range 2 {
		answer, _ := d.answers.LoadOrStore(key, new(searchAnswer))
		known := answer.(*searchAnswer)
		known.once.Do(func() { known.lists, known.ok = d.askSearches(ctx, a, files) })
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

// preprocesses returns the commands that preprocess the source of a compile, and the name of the
// source in them: a's own, or those that nvcc runs.
func (d *drivers) preprocesses(
	ctx context.Context, a *graph.Action,
) (argvs [][]string, source string, err error) {
	if !isNVCC(a) {
		return [][]string{a.Argv}, strings.Join(a.Inputs[:min(1, len(a.Inputs))], ""), nil
	}
	printed, _ := d.Query(ctx, a, dryRun(a), false)
	argvs, err = nvcc.Preprocesses(printed)
	return argvs, nvcc.QuerySource, err
}

// appeared reports whether a folder exists that was absent when a compiler was queried.
func (d *drivers) appeared(lists []host.Search) bool {
	come := func(dir string) bool { return d.Listing.Exists(dir) && d.isFolder(dir) }
	return slices.ContainsFunc(lists, func(s host.Search) bool { return slices.ContainsFunc(s.Missing, come) })
}

// askSearches queries the compilers that preprocess the source of a. files are those of a.
func (d *drivers) askSearches(
	ctx context.Context, a *graph.Action, files []string,
) (lists []host.Search, ok bool) {
	argvs, source, err := d.preprocesses(ctx, a)
	if isNVCC(a) {
		files = []string{source}
	}
	asked := map[string]bool{}
	for _, argv := range argvs {
		question := host.AskSearch(argv, files, "")
		key := strings.Join(question, "\x00")
		if asked[key] {
			continue
		}
		asked[key] = true
		list, ok := d.askSearch(ctx, a, question)
		if lists = append(lists, list); !ok {
			return lists, false
		}
	}
	return lists, err == nil && len(lists) > 0
}

// askSearch queries a gcc or clang. Its preprocessed text, which is large for CUDA, is dropped.
func (d *drivers) askSearch(
	ctx context.Context, a *graph.Action, question []string,
) (s host.Search, ok bool) {
	printed, _ := d.Query(ctx, a, question, true)
	s, ok = host.ParseSearch(printed)
	s.NamesRoot = slices.ContainsFunc(slices.Concat(s.Dirs, s.Missing), d.spells)
	for i, dir := range s.Dirs {
		s.Dirs[i] = d.Name(dir)
	}
	s.Dirs = compact(s.Dirs)
	for i, dir := range s.Missing {
		s.Missing[i] = d.Name(dir)
	}
	return s, ok
}

// folders returns where the driver that a runs by argv looks for programs and libraries. The lists
// are in the driver's order.
func (d *drivers) folders(ctx context.Context, a *graph.Action, argv []string) (host.Folders, bool) {
	question := host.AskFolders(argv)
	key := strings.Join(append(question, a.Env...), "\x00")
	printed, known := d.folder.Load(key)
	if !known {
		printed, _ = d.Query(ctx, a, question, false)
		d.folder.LoadOrStore(key, printed)
	}
	f, ok := host.ParseFolders(printed)
	for _, list := range [2][]string{f.Programs, f.Libraries} {
		for i, dir := range list {
			list[i] = d.Name(dir)
		}
	}
	return f, ok
}

// known reports whether the compiler of a can be queried, which requires its fingerprint.
func (d *drivers) known(a *graph.Action) bool {
	return len(a.Tools) > 0 && d.Tools[a.Tools[0]] != ""
}

// A driver finds the programs that it runs, the start files and the folders of libraries by -B,
// COMPILER_PATH, LIBRARY_PATH and its installation. It passes folders to the linker only if they
// exist.

// driverFolders returns the paths that must stay absent for the driver to find the same files. They
// are folders that it would pass to the linker, start files, and with -B programs.
func (d *drivers) driverFolders(ctx context.Context, a *graph.Action, rec *cache.Record) (missing []string) {
	f, ok := d.folders(ctx, a, a.Argv)
	if !ok {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it looks for libraries"))
		return nil
	}
	var starts []string
	for _, found := range rec.Discovered {
		if base := path.Base(found.Path); path.Ext(base) == ".o" && strings.Contains(base, "crt") && !slices.Contains(starts, base) {
			starts = append(starts, base)
		}
	}
	missing = append(d.missing(f.Libraries), d.firstAbsent(f.Libraries, starts)...)
	if host.Redirects(a.Argv) {
		missing = append(missing, d.programs(f, rec, "collect2", "collect-ld", "real-ld", "ld", f.Machine+"-ld", "lto-wrapper", "lto1", "liblto_plugin.so")...)
	}
	return missing
}

// compilePrograms records the programs of a compile whose options select where to look for them.
func (d *drivers) compilePrograms(ctx context.Context, a *graph.Action, rec *cache.Record) {
	if isNVCC(a) && !host.RedirectsCompile(slices.Concat(a.Argv, d.KeyEnv)) {
		return
	}
	argvs, _, err := d.preprocesses(ctx, a)
	for _, argv := range argvs {
		if !host.RedirectsCompile(argv) {
			continue
		}
		f, ok := d.folders(ctx, a, argv)
		if !ok {
			err = errors.New("no answer")
			break
		}
		rec.Absent = append(rec.Absent, d.programs(f, rec, "cc1plus", "cc1", "as", f.Machine+"-as")...)
		for _, dir := range f.Programs { // existing ones are already among the header folders
			if d.Listing.Exists(dir) {
				rec.Absent = append(rec.Absent, d.missing([]string{path.Join(dir, "include"), path.Join(dir, "include-fixed")})...)
			}
		}
	}
	if err != nil {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it looks for programs"))
	}
}

// linkerCommand returns the command of the linker that a's driver runs: it has the libraries and
// library folders that the driver adds. If the driver does not print it, the driver's own command
// is returned.
func (d *drivers) linkerCommand(ctx context.Context, a *graph.Action) []string {
	if !d.known(a) {
		return a.Argv
	}
	printed, _ := d.Query(ctx, a, append(slices.Clone(a.Argv), "-###"), false)
	for line := range strings.Lines(printed) {
		words, err := toolchain.ShellWords(strings.TrimSpace(line), nil)
		if err == nil && len(words) > 1 && strings.Contains(words[0], "/") && slices.Contains(linkers, path.Base(words[0])) {
			return words
		}
	}
	return a.Argv
}

var linkers = []string{"collect2", "ld", "lld", "ld.lld", "ld.gold", "ld.bfd", "ld.mold", "mold"}

// Where nvcc links device code as one command, it also compiles link.stub, and searches the
// project's folder for its headers (-I.). It writes no dependency file for that compile. So the
// headers are queried by the compile command of nvcc's dry run, with -M.

// linkStub records what such a link read and probed. stable is false if some of it may have
// appeared while the command ran.
func (d *Discovery) linkStub(ctx context.Context, ran Ran, rec *cache.Record) (stable bool) {
	a := ran.Action
	if !d.drivers.known(a) || a.Tools[0] != "nvcc" {
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
		rec.Discovered = append(rec.Discovered, never("nvcc does not say what it compiles to link device code"))
	}
	return d.recordShadows(ran, rec) && stable
}

// stub records the headers of the stub that argv compiles, and their search path.
func (d *Discovery) stub(ctx context.Context, a *graph.Action, argv []string, rec *cache.Record) (ok bool) {
	at := slices.IndexFunc(argv, func(arg string) bool { return path.Base(arg) == "link.stub" })
	if at < 0 {
		return false
	}
	stub := argv[at]
	search, ok := d.drivers.askSearch(ctx, a, host.AskSearch(argv, []string{stub}, ""))
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
		addFile(rec, cache.FileDigest{Path: name, Digest: digest})
		for _, rel := range spellings(name, search.Dirs) {
			s.absent(rel, name)
		}
	}
	rec.Search = append(rec.Search, strings.Join(search.Dirs, "\n"))
	rec.Absent = append(append(rec.Absent, search.Missing...), stub+pch)
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

// hostHeaders records the headers of the toolkit that cudafe++'s host code includes, where nvcc
// runs as one command: its dependency file does not name them. They are the same for every source,
// and are searched for like others.
func (t Tree) hostHeaders(rec *cache.Record) {
	for _, list := range rec.Search {
		for _, name := range nvcc.HostHeaders {
			if f, ok := t.first(strings.Split(list, "\n"), name); ok {
				addFile(rec, f)
			}
		}
	}
}
