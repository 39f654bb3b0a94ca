package launch

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// The result of a command is useful in another checkout if nothing in it depends on the path of
// this one. Names that kbuild chooses itself, the module ID and the object's name of its source,
// are relative to the base directory. What remains is what the code uses: __FILE__, debug
// information, a macro with a path. Then the command is remembered for this checkout alone, and
// another one runs the passes that read the path.

// keep remembers the result of the command. If the result is the same everywhere, it is remembered
// for every location of the base directory.
func (b *build) keep(ctx context.Context, made *quick.Made) {
	l := b.launch
	answers, ok := b.steps.Observed()
	if b.observed == nil || !ok {
		return
	}
	others := slices.Concat(b.observed, answers)
	for _, f := range b.files {
		if _, err := b.runner.Files.Digest(f); err != nil {
			return
		}
	}
	for _, name := range b.absent {
		others = append(others, cache.Observation{Path: name, Kind: cache.KindAbsent})
	}
	observed, ok := engine.Observed(b.runner, others, l.Begun)
	if !ok {
		return
	}
	observed = slices.DeleteFunc(observed, func(o cache.Observation) bool {
		return strings.HasPrefix(o.Path, placeDir)
	})
	if l.Base.Dir != "" && !b.placed && !b.planned.Lines && b.isAnywhere(ctx, made, observed) {
		list, ok := b.anywhere(observed)
		spelled, ok2 := made.Spelled(l.Base)
		if ok && ok2 && l.Keep(l.Shared, list, spelled) == nil {
			os.Remove(l.Store.Command(l.Key)) // an earlier result
			return
		}
	}
	l.Keep(l.Key, observed, made)
}

// isAnywhere reports whether the command and its outputs name the base directory only where it does
// not matter. Also, the command itself must lead to all files of the base directory that were read.
func (b *build) isAnywhere(
	ctx context.Context, made *quick.Made, observed []cache.Observation,
) bool {
	base, c := b.launch.Base, b.command
	if c.Archs != nil || !b.namesFoldersAlone() || slices.ContainsFunc(b.words(), base.Leaves) {
		return false
	}
	for _, name := range run.Names(run.NVCCOptions | run.PassOptions | run.Headers) {
		if base.In([]byte(os.Getenv(name))) {
			return false
		}
	}
	for _, o := range made.Outputs {
		if content, err := b.launch.content(o); err != nil || base.In(content) {
			return false
		}
	}
	if !base.In([]byte(strings.Join(b.words(), "\n"))) {
		return !b.readsByName(observed)
	}
	if c.Linked != nil {
		return true
	}
	hasTexts := slices.ContainsFunc(b.graph.Actions, func(a *graph.Action) bool {
		return a.Kind.Info().Writes == graph.FormText
	})
	return !b.textsName() && (hasTexts || b.readsTheSame(ctx)) // sources has checked the texts
}

// words returns the command line in which files of options are replaced by their content.
func (b *build) words() []string {
	c := b.command
	return append(c.Argv[1:len(c.Argv):len(c.Argv)], c.Source, c.Output, c.Deps)
}

// readsByName reports whether a command that does not name the base directory read a file of it by
// an absolute path. Then a text or a compiler's configuration has that path, which is the same in
// another checkout.
func (b *build) readsByName(observed []cache.Observation) bool {
	for _, a := range b.graph.Actions {
		if rec := b.db.LastRun(a.Outputs[0]); rec == nil || discover.NamesRoot(rec) {
			return true
		}
	}
	return slices.ContainsFunc(observed, func(o cache.Observation) bool {
		_, inside := b.launch.Base.Below(o.Path)
		return inside
	})
}

// textsName reports whether a source, a header or a file of options names the base directory, and
// so may lead to a file of it. The command names the directory, too, and a path does not show which
// of them led to it. Files of options in the command's key do not count, and installed headers have
// no such name.
func (b *build) textsName() bool {
	l := b.launch
	files := slices.DeleteFunc(slices.Clone(b.files), func(file string) bool {
		return slices.ContainsFunc(l.Options, func(o quick.Options) bool { return o.Name == file })
	})
	installed := []string{"/usr/"}
	if dir := b.planned.Installed; dir != "" {
		installed = append(installed, dir+"/")
	}
	for _, a := range b.graph.Actions {
		rec := b.db.LastRun(a.Outputs[0])
		if rec == nil {
			return true
		}
		for _, f := range rec.Discovered {
			if !discover.IsCondition(f.Path) && !slices.ContainsFunc(installed, func(dir string) bool { return strings.HasPrefix(f.Path, dir) }) {
				files = append(files, f.Path)
			}
		}
		files = append(files, a.Inputs...)
	}
	slices.Sort(files)
	for _, f := range slices.Compact(files) {
		if _, made := b.graph.Producer(f); made {
			continue
		}
		if text, err := regular.Read(cache.Absolute(l.Dir, f)); err != nil || l.Base.In(text) {
			return true
		}
	}
	return false
}

// sharedOptions lists options with a folder or a file that matters by its content alone, or that is
// searched for in the preprocessed text.
var sharedOptions = []string{"-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-L", "--include-path", "--system-include", "--pre-include",
	"--library-path", "-fdebug-prefix-map=", "-ffile-prefix-map=", "-fmacro-prefix-map=", "-D", "--define-macro", "-U", "-MT", "-MQ"}

// namesFoldersAlone reports whether only the sharedOptions name the base directory.
func (b *build) namesFoldersAlone() bool {
	base, allowed, argv := b.launch.Base, sharedOptions, b.command.Argv
	for i, arg := range argv[1:] {
		if arg == b.command.Source {
			continue
		}
		for _, option := range []string{"-Xcompiler=", "--compiler-options="} {
			arg = strings.TrimPrefix(arg, option)
		}
		for _, word := range strings.Split(arg, ",") {
			starts := func(o string) bool { return strings.HasPrefix(word, o) }
			if base.In([]byte(word)) && !slices.Contains(allowed, argv[i]) && !slices.ContainsFunc(allowed, starts) {
				return false
			}
		}
	}
	return true
}

// anywhere names the observed paths in the base directory relative to the folder of the command. ok
// is false if a path outside of it may have been reached from inside, by "..". That is another path
// in another checkout.
func (b *build) anywhere(observed []cache.Observation) (list []cache.Observation, ok bool) {
	l := b.launch
	fixed := b.fixedFolders()
	for _, o := range observed {
		if o.ByStat {
			return nil, false
		}
		file := cache.Absolute(l.Dir, o.Path)
		if i := slices.IndexFunc(l.Options, func(f quick.Options) bool { return f.Name == file }); i >= 0 {
			if text, err := os.ReadFile(file); err != nil || string(text) != l.Options[i].Text {
				return nil, false
			}
			continue // its text is in the key
		}
		name, inside := l.Base.Name(o.Path)
		if inside && o.Kind == cache.KindFile && o.Digest.IsZero() {
			return nil, false
		}
		paths := []string{o.Path}
		if o.Kind == cache.KindGuard { // the folder itself only has to exist
			paths = nil
			for _, name := range o.Absent {
				paths = append(paths, filepath.Join(o.Path, name))
			}
		}
		for _, path := range paths {
			onWay := func(dir string) bool {
				return strings.HasPrefix(path+"/", dir+"/") || strings.HasPrefix(dir+"/", path+"/")
			}
			if !inside && !slices.ContainsFunc(fixed, onWay) {
				return nil, false
			}
		}
		o.Path = name
		list = append(list, o)
	}
	return list, true
}

// fixedFolders returns folders outside of the base directory that are the same for every checkout.
// These are the folders of the system, of the tools, of PATH, of the user, and those that the
// command line names absolutely.
func (b *build) fixedFolders() (dirs []string) {
	l := b.launch
	words := slices.Concat([]string{"/usr", "/include", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/proc", "/dev", "/sys", l.Store.Folder(), filepath.Join(os.Getenv("HOME"), ".config")}, filepath.SplitList(os.Getenv("PATH")))
	words = append(append(words, b.command.Argv...), b.planned.Installed)
	for _, w := range words {
		for _, part := range strings.FieldsFunc(w, func(r rune) bool { return r == '=' || r == ',' }) {
			if i := strings.IndexByte(part, '/'); i > 0 && part[0] == '-' {
				part = part[i:]
			}
			if dir := filepath.Clean(part); filepath.IsAbs(dir) && dir != "/" && !strings.HasPrefix(l.Base.Dir+"/", dir+"/") {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// named returns the name of a file relative to the base directory, which is the same in every
// checkout. A file from outside keeps its absolute name.
func (b *build) named(file string) string {
	file = cache.Absolute(b.launch.Dir, file)
	if below, ok := b.launch.Base.Below(filepath.Clean(file)); ok {
		return below
	}
	return file
}

// elsewhere is another name of the base directory, which readsTheSame uses to find traces of the
// directory's name.
const elsewhere = placeDir + "/base"

// readsTheSame reports whether the preprocessor writes the same text, and reads the same files,
// wherever the base directory is. It runs with another name of the base directory in all arguments.
// What has that name in the text is __FILE__ or a macro of the command, however it was spelled. A
// file that is read by the directory's own name was not found by the command. An #include, a macro,
// or a file that configures the compiler has led to it.
func (b *build) readsTheSame(ctx context.Context) bool {
	l, a := b.launch, b.graph.Actions[0]
	argv, ok := host.AskText(a.Argv, a.Outputs[0], a.Depfile, placeDir+"/text", placeDir+"/text.d")
	if !ok || os.Symlink(l.Base.Dir, elsewhere) != nil {
		return false
	}
	for i, arg := range argv {
		spelled, ok := l.Base.Spell(arg)
		if !ok {
			return false
		}
		argv[i] = quick.Base{Dir: elsewhere}.Write(spelled)
	}
	if b.CXX.Family == "gcc" {
		// otherwise it prefers the shorter of two names
		argv = append(argv, "-fno-canonical-system-headers")
	}
	if res, err := b.query(ctx, argv, toolchain.Anywhere); err != nil || res.ExitCode != 0 {
		return false
	}
	text, err := regular.Read(placeDir + "/text")
	deps, err2 := regular.Read(placeDir + "/text.d")
	return err == nil && err2 == nil && !l.Base.In(text) && !l.Base.In(deps) && !pptext.NamesBase(text, elsewhere) &&
		// clang's names of lambdas
		!bytes.Contains(text, []byte("__PRETTY_FUNCTION__")) && !bytes.Contains(text, []byte("__FUNCSIG__"))
}
