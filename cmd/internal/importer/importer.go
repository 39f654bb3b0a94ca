// Package importer writes a first manifest. It reads CMake build trees through CMake's file API,
// compile_commands.json, and folders of sources. It parses command lines with the packages that also
// write them, and does not know how anything is built.
package importer

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// UI shows what runs.
type UI interface{ Say(text string) }

// Build is a build of another tool.
type Build struct {
	Root    string // where the manifest will be, absolute
	From    string // the build tool, as shown to users: "CMake 3.25.1, Ninja, Release"
	NVCC    string // the nvcc that compiles; "" if unknown
	Version string // of nvcc, such as 11.8.89
	CCBin   string // the host compiler that nvcc is given; "" if none
	Targets []*Target

	// Draft means that the sources alone were read: the architectures and modes are guesses, which
	// users change in one place, and shared attributes go into defaults.
	Draft bool

	DefaultStd string // of C++ without an option; "" if unknown

	Notes []string // what is not carried over
	trees []string // CMake build trees, absolute: no path in them is carried over

	// These resolve the names in links.
	made     map[string]string // target name by absolute path of its file
	loose    map[string]bool   // targets that are only objects, by name
	implicit map[string]bool   // folders that compilers search implicitly, nvcc included
	searched map[string]bool   // those that the C and C++ compilers search
}

// Target is a target of the other build tool.
type Target struct {
	Name       string
	Kind       string // "library", "executable", "module"; "objects" for a CMake object library
	Shared     bool
	OutputName string // file name, if it differs from the target's
	SOVersion  string
	Emit       string   // for a module: "ptx", "cubin", "fatbin"
	DeviceLink bool     // a static library has its own device link
	Relinks    bool     // its device link is CMake's
	NVLink     []string // nvlink options of that link
	Groups     []*Group
	Deps       []string // targets that it links, by name
	Prebuilt   []string // files that it links, absolute or relative to the root
	Whole      []string // archives in Deps and Prebuilt that it links with --whole-archive
	AlwaysLink bool     // a static library: all its users link it that way
	Libs       []string
	LibDirs    []string
	LinkFlags  []string
	From       string   // where the other build defines it; "" if unknown
	Aside      []string // reasons not to build it by default
	Globs      []string // patterns for some of its sources
	CudaRT     string   // "shared", "none"; "" is the default

	runtime     string   // CUDA runtime of its link: "static", "shared" or ""
	runtimeDir  string   // the runtime's folder, if linked by path
	toolkitDirs []string // of toolkit libraries; kbuild finds them itself if it links the runtime
	system      []string // libraries that the runtime or others need
}

// Group is a group of sources of a target with equal options.
type Group struct {
	Language string   // "cuda", "hip", "c++", "c", "asm"
	Sources  []string // relative to the root, or absolute
	Why      []string // why it has this language
	ModeWhy  string   // why it has this mode
	nvcc.Settings
	HostLTO bool
}

// Read reads the folder of a project: by CMake if it has a CMakeLists.txt, by make if it has a
// Makefile whose default goal compiles something, else the sources alone.
func Read(dir string, m Machine, ui UI) (*Build, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if exists(dir, "CMakeLists.txt") {
		return readProject(dir, m, ui)
	}
	for _, makefile := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if !exists(dir, makefile) {
			continue
		}
		ui.Say(fmt.Sprintf("running make -n, which runs no recipe but $(shell) of %s. `kbuild init --sources` runs nothing", makefile))
		b, err := readMake(dir, makefile, m)
		if b != nil {
			return b, err
		}
		if err == nil {
			err = errNone
		}
		ui.Say(fmt.Sprintf("make -n does not help (%v), so the sources alone are read", err))
		break
	}
	return ReadSources(dir, m)
}

// Find reads a CMake build tree, a folder with a compile_commands.json, or such a file. root is the
// folder for the manifest; "" means that the build determines it.
func Find(dir, root string, ui UI) (*Build, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--from %s: there is no such file or folder", dir)
	case !info.IsDir():
		return readCommands(dir, root)
	case exists(dir, "CMakeCache.txt") || exists(dir, ".cmake/api"):
		return readCMake(dir, root, ui)
	case exists(dir, commandsFile):
		return readCommands(filepath.Join(dir, commandsFile), root)
	}
	return nil, fmt.Errorf("--from %s is not a build tree: CMakeCache.txt, .cmake/api and %s were looked for. Run cmake there first, or name a compile_commands.json", dir, commandsFile)
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// note records something that is not carried over, once. target may be "".
func (b *Build) note(target, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if target != "" {
		text = target + ": " + text
	}
	b.Notes = appendNew(b.Notes, text)
}

// pattern compiles a regular expression when it is first used.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// rel returns a path as the manifest spells it: relative to the root if it is below the root.
func (b *Build) rel(from, p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(from, p)
	}
	if rel, err := filepath.Rel(b.Root, p); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return filepath.Clean(p)
}

// group parses the options of sources. Their paths are relative to dir.
func (b *Build) group(target, language, dir string, words []string) (*Group, error) {
	g := &Group{Language: language}
	files := optfile.Files{Read: func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return regular.Read(name)
	}}
	expand := files.GNU
	if language == "cuda" {
		expand = files.NVIDIA
	}
	written, err := expand(words)
	if err != nil {
		return nil, err
	}
	words = nil
	for _, w := range written {
		if file, ok := strings.CutPrefix(w.Text, "@"); ok {
			b.note(target, "the options in %s, which is not there", b.rel(dir, file))
			continue
		}
		words = append(words, w.Text)
	}
	if language == "cuda" {
		if g.Settings, err = nvcc.ReadSettings(words); err != nil {
			return nil, err
		}
	} else {
		o, _ := host.ReadOptions(words)
		g.Std, g.Opt, g.Defines, g.Includes, g.System, g.Debug, g.Host, g.HostLTO = o.Std, o.Opt, o.Defines, o.Includes, o.System, o.Debug, o.Flags, o.LTO != nil
	}
	g.Opt = cmp.Or(g.Opt, "0") // the compilers' default; kbuild's is to optimise
	g.Includes, g.System = b.folders(target, dir, g.Includes), b.folders(target, dir, g.System)
	g.Flags, g.Host = b.options(target, dir, "nvcc", g.Flags), b.options(target, dir, "host", g.Host)
	for _, l := range g.Lost {
		b.note(target, "%s", l)
	}
	g.Lost, b.CCBin = nil, cmp.Or(b.CCBin, g.CCBin)
	g.CCBin = ""
	return g, nil
}

// languages lists the languages of CMake that kbuild builds.
var languages = map[string]string{"CUDA": "cuda", "CXX": "c++", "C": "c", "ASM": "asm"}

// errNone means that a build tree has no source that kbuild can build.
var errNone = errors.New("no C, C++, CUDA or assembler source was found in it")

var imageRE = pattern(`--image3=kind=(elf|ptx),sm=(\w+),`)

// unnamedCode returns the code that nvcc ships if no option names an architecture, or if
// -arch=native finds no GPU. That depends on the release, so it queries nvcc.
func (b *Build) unnamedCode(g *Group) []gencode.Code {
	argv := []string{b.NVCC, "--dryrun", "-c", "-x", "cu", "/dev/null", "-o", "/dev/null"}
	native := len(g.Codes) > 0
	if native {
		argv = append(argv, "-arch=native")
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if native && !strings.Contains(string(out), "Cannot find valid GPU") {
		return g.Codes
	}
	var codes []gencode.Code
	for _, m := range imageRE().FindAllStringSubmatch(string(out), -1) {
		if code, err := gencode.Parse(map[string]string{"elf": "sm_", "ptx": "compute_"}[m[1]] + m[2]); err == nil {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		b.note("", "%s: for which GPUs they are compiled, which no option names. %s: %v", strings.Join(g.Sources, ", "), strings.Join(argv, " "), err)
	}
	return codes
}

// finish checks the targets and fills in defaults.
func (b *Build) finish() (*Build, error) {
	b.Targets = slices.DeleteFunc(b.Targets, func(t *Target) bool { return len(t.Groups) == 0 })
	if len(b.Targets) == 0 {
		return nil, fmt.Errorf("%s: %w", b.From, errNone)
	}
	called := map[string]string{} // target by file
	for _, t := range b.Targets {
		file := fmt.Sprint(t.Kind, t.Shared, strings.ToLower(cmp.Or(t.OutputName, plainName(t.Name))))
		if other := called[file]; other != "" && t.OutputName != "" {
			b.note(t.Name, "the name of the file, %s, which %s has as well", t.OutputName, other)
			t.OutputName = ""
		}
		called[file] = t.Name
		for _, g := range t.Groups {
			isNative := func(c gencode.Code) bool { return c.Name == "native" }
			if g.Language == "cuda" && (len(g.Codes) == 0 || slices.ContainsFunc(g.Codes, isNative)) {
				g.Codes = b.unnamedCode(g)
			}
			if t.Shared { // kbuild adds it
				g.Host = slices.DeleteFunc(slices.Clone(g.Host), func(o string) bool { return strings.EqualFold(o, "-fPIC") })
			}
		}
	}
	return b, nil
}
