package discover

import (
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// linkInputs finds the files that -l and linker scripts stand for.
type linkInputs struct {
	tree   Tree
	keyEnv []string
}

// absentInScripts returns absent paths that a discovered linker script would name if they existed.
// libgcc_s.so of gcc is such a script, and names another library without a folder.
func (s linkInputs) absentInScripts(argv []string, rec *cache.Record) (missing []string) {
	dirs, _ := s.linked(argv)
	for _, f := range rec.Discovered {
		if base := path.Base(f.Path); !strings.Contains(base, ".so") && path.Ext(base) != ".a" {
			continue
		}
		text, _ := regular.Read(s.tree.Abs(f.Path))
		if !bytes.Contains(text, []byte("GROUP")) && !bytes.Contains(text, []byte("INPUT")) || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, word := range strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune(" \t\r\n(),", c) }) {
			switch {
			case strings.HasPrefix(word, "-l"):
				missing = append(missing, s.absentLibs(append(slices.Clone(argv), word))...)
			case strings.Contains(word, ".") && !path.IsAbs(word):
				missing = append(missing, s.tree.firstAbsent(slices.Concat([]string{".", path.Dir(f.Path)}, dirs), []string{word})...)
			}
		}
	}
	return missing
}

// absentLibs returns absent libraries that a link would use for -lNAME if they existed. They are in
// a -L folder before the one that has it, or shared ones beside a static one.
func (s linkInputs) absentLibs(argv []string) (missing []string) {
	dirs, libs := s.linked(argv)
	for _, l := range libs {
	search:
		for _, dir := range dirs {
			for _, f := range l {
				p := path.Join(dir, f)
				if s.tree.Listing.Exists(p) {
					break search
				}
				missing = append(missing, p)
			}
		}
	}
	return missing
}

// linked returns the folders of -L, followed by those of LIBRARY_PATH, and the file names that each
// -l may stand for in a folder.
func (s linkInputs) linked(argv []string) (dirs []string, libs [][]string) {
	args := host.LinkerWords(argv)
	static := slices.Contains(args, "-static")
	for i, arg := range args {
		if (arg == "-L" || arg == "-l") && i+1 < len(args) {
			arg += args[i+1]
		}
		switch {
		case arg == "-Bstatic" || arg == "-dn" || arg == "-non_shared":
			static = true
		case arg == "-Bdynamic" || arg == "-dy" || arg == "-call_shared":
			static = false
		case strings.HasPrefix(arg, "-L"):
			dirs = append(dirs, arg[2:])
		case strings.HasPrefix(arg, "--library-path="):
			dirs = append(dirs, strings.TrimPrefix(arg, "--library-path="))
		case strings.HasPrefix(arg, "-l:"):
			libs = append(libs, []string{arg[3:]})
		case strings.HasPrefix(arg, "-l") && static:
			libs = append(libs, []string{"lib" + arg[2:] + ".a"})
		case strings.HasPrefix(arg, "-l"):
			libs = append(libs, []string{"lib" + arg[2:] + ".so", "lib" + arg[2:] + ".a"})
		}
	}
	for _, e := range s.keyEnv {
		if list, ok := strings.CutPrefix(e, "LIBRARY_PATH="); ok {
			dirs = append(dirs, filepath.SplitList(list)...)
		}
	}
	return dirs, libs
}
