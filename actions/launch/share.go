package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/launch/quick"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
)

// What a command made is of use to the same command in another checkout if nothing in it is of this one. Names that kbuild gives itself, the module
// id and what the object calls its source, are those below the base. What remains is what the code asks for: __FILE__, debug information, a macro
// with a path. Then the command is remembered for this place alone, and the other one runs the passes that read the place.

// keep remembers the command for the next time: for any place of the base, if it is the same everywhere.
func (b *build) keep(made *command.Made) {
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
	if l.Base.Dir != "" && !b.placed && !b.debug && b.isAnywhere(made) {
		list, ok := b.anywhere(observed)
		spelled, ok2 := made.Spelled(l.Base)
		if ok && ok2 && memory.Keep(l.Shared, list, *spelled) == nil {
			memory.Forget(l.Key)
			return
		}
	}
	memory.Keep(l.Key, observed, *made)
}

// isAnywhere reports that the command and what it made name the base nowhere but where it does not matter.
func (b *build) isAnywhere(made *command.Made) bool {
	base := b.launch.Base
	if b.hip != nil {
		return false
	}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if base.In([]byte(value)) && slices.Contains(slices.Concat(engine.OptionEnv, engine.OtherOptionEnv), name) {
			return false
		}
	}
	if !b.namesFoldersAlone() || b.host != nil && (host.RecordsLines(b.host.Argv) || b.asksForFile()) {
		return false
	}
	for _, o := range made.Outputs {
		if content, err := b.launch.content(o); err != nil || base.In(content) {
			return false
		}
	}
	return true
}

// searchOptions have a folder or a file behind them that matters by its content alone, or that is looked for what the texts of passes show.
var searchOptions = []string{"-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-L", "--include-path", "--system-include", "--pre-include", "--library-path",
	"-fdebug-prefix-map=", "-ffile-prefix-map=", "-fmacro-prefix-map="}

// namesFoldersAlone reports that the options name the base as a folder to search, or to be left out of what __FILE__ says, or not at all.
func (b *build) namesFoldersAlone() bool {
	base, argv, allowed := b.launch.Base, []string(nil), searchOptions
	if b.host != nil {
		argv = slices.DeleteFunc(slices.Clone(b.host.Argv), func(a string) bool { return a == b.host.Source })
		allowed = append([]string{"-MT", "-MQ"}, allowed...)
	} else {
		argv = b.command.Argv
		allowed = append([]string{"-D", "--define-macro", "-U"}, allowed...) // the texts show what comes of macros
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

// asksForFile reports that a source or header of a C++ compile may ask for the name of its file, and hide it in what it makes of it. The compiler's
// own headers and that of assert make a string of it, which is seen in the object.
func (b *build) asksForFile() bool {
	rec := b.db.LastRun(b.graph.Actions[len(b.graph.Actions)-1].Outputs[0])
	if rec == nil {
		return true
	}
	files := []string{b.host.Source}
	for _, f := range rec.Discovered {
		own := strings.HasPrefix(f.Path, "/usr/include/") && strings.Contains(f.Path, "/c++/") || strings.HasPrefix(f.Path, "/usr/lib/gcc/") || f.Path == "/usr/include/assert.h"
		if !own && f.Path[0] != '<' {
			files = append(files, f.Path)
		}
	}
	for _, f := range files {
		if text, err := regular.Read(cache.Absolute(b.launch.Dir, f)); err != nil || mentionsFile(text) {
			return true
		}
	}
	return mentionsFile([]byte(strings.Join(b.host.Argv, "\n")))
}

// mentionsFile reports what stands for the name of a file.
func mentionsFile(text []byte) bool {
	return slices.ContainsFunc([]string{"__FILE__", "__BASE_FILE__", "__builtin_FILE", "source_location", "__PRETTY_FUNCTION__", "__FUNCSIG__"}, func(word string) bool {
		return bytes.Contains(text, []byte(word))
	})
}

// anywhere names what was observed as it is to the folder of the command, where it is in the base. ok is false if a path outside of it may have been
// reached from inside, by "..": then it is another one from another place.
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

// looked are the paths that an observation is of. Of a folder that is only to be there nothing is asked.
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

// fixedFolders are folders outside of the base that are the same for every checkout: those of the system, of the tools, of PATH, of the user, and what the command
// line names absolutely.
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
