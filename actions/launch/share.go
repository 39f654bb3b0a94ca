package launch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// What a command made is of use to the same command in another checkout if nothing in it is of this
// one. Names that kbuild gives itself, the module id and what the object calls its source, are
// those below the base. What remains is what the code asks for: __FILE__, debug information, a
// macro with a path. Then the command is remembered for this place alone, and the other one runs
// the passes that read the place.

// keep remembers the command for the next time: for any place of the base, if it is the same
// everywhere.
func (b *build) keep(ctx context.Context, made *command.Made) {
	l, memory := b.launch, b.launch.Memory
	others, ok := probe.Observed(b.request, b.Facts)
	if !ok {
		return
	}
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
	observed = slices.DeleteFunc(observed, func(o cache.Observation) bool { return strings.HasPrefix(o.Path, placeDir) })
	if l.Base.Dir != "" && !b.placed && !b.debug && b.isAnywhere(ctx, made, observed) {
		list, ok := b.anywhere(observed)
		spelled, ok2 := made.Spelled(l.Base)
		if ok && ok2 && memory.Keep(l.Shared, list, *spelled) == nil {
			memory.Forget(l.Key)
			return
		}
	}
	memory.Keep(l.Key, observed, *made)
}

// isAnywhere reports that the command and what it made name the base nowhere but where it does not
// matter, and that all files of the base that it read are those by which the command itself leads
// to them.
func (b *build) isAnywhere(ctx context.Context, made *command.Made, observed []cache.Observation) bool {
	base := b.launch.Base
	if b.hip != nil || !b.namesFoldersAlone() || slices.ContainsFunc(b.words(), base.Leaves) {
		return false
	}
	for _, name := range slices.Concat(engine.OptionEnv, engine.OtherOptionEnv, searchEnv) {
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
	if b.link == nil && b.textsName() {
		return false
	}
	return b.host == nil || b.readsTheSame(ctx) // the texts of nvcc's passes were looked at: see sources
}

// searchEnv are the variables with folders of headers.
var searchEnv = []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}

// words is the command line with the files of options written out.
func (b *build) words() []string {
	if b.host != nil {
		return append(b.host.Argv[1:len(b.host.Argv):len(b.host.Argv)], b.host.Output, b.host.Deps)
	}
	return append(b.command.Argv[1:len(b.command.Argv):len(b.command.Argv)], b.command.Source, b.command.Output)
}

// readsByName reports a command that does not name the base and read a file of it by an absolute
// path: a text or a compiler's configuration has that path, and so it is the same in another
// checkout.
func (b *build) readsByName(observed []cache.Observation) bool {
	for _, a := range b.graph.Actions {
		if rec := b.db.LastRun(a.Outputs[0]); rec == nil || discover.Placed(rec) {
			return true
		}
	}
	return slices.ContainsFunc(observed, func(o cache.Observation) bool {
		_, inside := b.launch.Base.Below(o.Path)
		return inside
	})
}

// textsName reports that a source, a header or a file of options that is not itself in the
// command's key has the name of the base, and so may lead to a file of it: the command names the
// base, too, and which of them has led there is not told by the path. An installed header has no
// such name.
func (b *build) textsName() bool {
	l := b.launch
	files := slices.DeleteFunc(slices.Clone(b.files), func(file string) bool {
		return slices.ContainsFunc(l.Options, func(o quick.Options) bool { return o.Name == file })
	})
	installed := []string{"/usr/"}
	if b.CUDA != nil {
		installed = append(installed, b.CUDA.Root+"/")
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

// sharedOptions have a folder or a file behind them that matters by its content alone, or that is
// looked for in what the preprocessor leaves.
var sharedOptions = []string{"-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-L", "--include-path", "--system-include", "--pre-include",
	"--library-path", "-fdebug-prefix-map=", "-ffile-prefix-map=", "-fmacro-prefix-map=", "-D", "--define-macro", "-U", "-MT", "-MQ"}

// namesFoldersAlone reports that the options name the base in these alone.
func (b *build) namesFoldersAlone() bool {
	base, allowed := b.launch.Base, sharedOptions
	argv := b.launch.Argv[:1:1]
	if b.host != nil {
		argv = slices.DeleteFunc(append(argv, b.host.Argv[1:]...), func(a string) bool { return a == b.host.Source })
	} else {
		argv = append(argv, b.command.Argv[1:]...)
	}
	for i, arg := range argv[1:] {
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

// anywhere names what was observed as it is to the folder of the command, where it is in the base.
// ok is false if a path outside of it may have been reached from inside, by "..": then it is
// another one from another place.
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
		if !inside && slices.ContainsFunc(looked(o), func(p string) bool { return !isFixed(p, fixed) }) {
			return nil, false
		}
		o.Path = name
		if inside && o.Kind == cache.KindFile && o.Digest.IsZero() {
			if o.Digest, ok = b.settled(name); !ok {
				return nil, false
			}
		}
		list = append(list, o)
	}
	return list, true
}

// looked are the paths that an observation is of. Of a folder that is only to be there nothing is
// asked.
func looked(o cache.Observation) (paths []string) {
	if o.Kind != cache.KindGuard {
		return []string{o.Path}
	}
	for _, name := range o.Absent {
		paths = append(paths, filepath.Join(o.Path, name))
	}
	return paths
}

// isFixed reports a path in one of some folders, or on the way to one.
func isFixed(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(dir string) bool {
		return strings.HasPrefix(path+"/", dir+"/") || strings.HasPrefix(dir+"/", path+"/")
	})
}

// settled is the content of a file that has not changed since the command began.
func (b *build) settled(name string) (d cache.Digest, ok bool) {
	file := cache.Absolute(b.launch.Dir, name)
	before, err := cache.StatFile(file)
	if err != nil || !before.Before(b.launch.Begun) {
		return d, false
	}
	d, err = cache.DigestFile(file)
	after, err2 := cache.StatFile(file)
	return d, err == nil && err2 == nil && before == after
}

// fixedFolders are folders outside of the base that are the same for every checkout: those of the
// system, of the tools, of PATH, of the user, and what the command line names absolutely.
func (b *build) fixedFolders() (dirs []string) {
	l := b.launch
	words := slices.Concat([]string{"/usr", "/include", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/proc", "/dev", "/sys", l.Store.Folder(), filepath.Join(os.Getenv("HOME"), ".config")}, filepath.SplitList(os.Getenv("PATH")))
	if b.CUDA != nil {
		words = append(words, b.CUDA.Root)
	}
	if b.command != nil {
		words = append(words, b.command.Argv...)
	} else {
		words = append(words, b.host.Argv...)
	}
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

// named is a file as it is called below the base: the same at each place of it.
func (b *build) named(file string) string {
	file = cache.Absolute(b.launch.Dir, file)
	if below, ok := b.launch.Base.Below(filepath.Clean(file)); ok {
		return below
	}
	return file
}

// name is what passes call the source; "" is as the command does.
func (b *build) name() string {
	if name := b.named(b.command.Source); b.command.Source != "" && !filepath.IsAbs(name) {
		return name
	}
	return ""
}
