// Package migrate makes a manifest of what another build tool knows: of a CMake build tree by
// CMake's file API, or of a compile_commands.json. It reads command lines by the packages that
// write them, and knows nothing of how anything is built.
package migrate

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
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/optfile"
)

// Build is what was found.
type Build struct {
	Root    string // where the manifest belongs, absolute
	From    string // the build tool, for people: "CMake 3.25.1, Ninja, Release"
	NVCC    string // the nvcc that compiles; "" if nobody says
	Version string // of it, such as 11.8.89
	CCBin   string // the host compiler that nvcc is told to take; "" if it is not told
	Targets []*Target

	DefaultStd string // of C++ where no option says it; "" if nobody knows

	Notes []Note   // what is not carried over
	trees []string // build trees of CMake, absolute: no path in them is carried over
}

// Note is something that is not carried over.
type Note struct{ Target, Text string }

func (n Note) String() string {
	if n.Target == "" {
		return n.Text
	}
	return n.Target + ": " + n.Text
}

// Target is what a build tool makes of sources.
type Target struct {
	Name       string
	Kind       string // "library", "executable", "module"; "objects" for a CMake object library, which others take in
	Shared     bool
	OutputName string // what the file is called, if not as the target
	SOVersion  string
	Emit       string   // of a module: "ptx", "cubin", "fatbin"
	DeviceLink bool     // a static library has a device link of its own
	Relinks    bool     // its device link is CMake's
	NVLink     []string // options of that link for nvlink
	Groups     []*Group
	Deps       []string // targets that it links, by name
	Prebuilt   []string // files that it links, absolute or relative to the root
	Whole      []string // archives of Deps and Prebuilt of which it links all objects
	AlwaysLink bool     // a static library: all its users do
	Libs       []string
	LibDirs    []string
	LinkFlags  []string
	CudaRT     string // "shared", "none"; "" is the default

	runtime     string   // of CUDA, as its link has it: "static", "shared" or ""
	runtimeDir  string   // where that is, if it is named by its path
	toolkitDirs []string // of libraries of the toolkit, which kbuild knows where it links its runtime
	system      []string // libraries that the runtime needs, or others
}

// Group is some sources of a target that are compiled alike.
type Group struct {
	Language string   // "cuda", "c++", "c", "asm"
	Sources  []string // relative to the root, or absolute
	nvcc.Settings
	HostLTO bool
}

// Find reads what DIR is: a CMake build tree, a folder with a compile_commands.json, or such a
// file. root is where the manifest is to be; "" leaves that to what is found. say tells what takes
// a while.
func Find(dir, root string, say func(string)) (*Build, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	is := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--from %s: there is no such file or folder", dir)
	case !info.IsDir():
		return readCommands(dir, root)
	case is("CMakeCache.txt") || is(".cmake/api"):
		return readCMake(dir, root, say)
	case is(commandsFile):
		return readCommands(filepath.Join(dir, commandsFile), root)
	}
	return nil, fmt.Errorf("--from %s is no build tree: CMakeCache.txt, .cmake/api and %s were looked for. Run cmake there first, or name a compile_commands.json", dir, commandsFile)
}

// note adds what is not carried over, once.
func (b *Build) note(target, format string, args ...any) {
	if n := (Note{target, fmt.Sprintf(format, args...)}); !slices.Contains(b.Notes, n) {
		b.Notes = append(b.Notes, n)
	}
}

// rel is a path as a manifest has it: relative to the root if it is below it.
func (b *Build) rel(from, p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(from, p)
	}
	if rel, err := filepath.Rel(b.Root, p); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return filepath.Clean(p)
}

// group reads the options of sources. Their paths are relative to dir.
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
	g.Opt = cmp.Or(g.Opt, "0") // what a compiler does that is not told; kbuild optimises
	g.Includes, g.System = b.folders(target, dir, g.Includes), b.folders(target, dir, g.System)
	g.Flags, g.Host = b.options(target, dir, "nvcc", g.Flags), b.options(target, dir, "host", g.Host)
	for _, l := range g.Lost {
		b.note(target, "%s", l)
	}
	g.Lost, b.CCBin = nil, cmp.Or(b.CCBin, g.CCBin)
	g.CCBin = ""
	return g, nil
}

// languageOf is a language that is carried over, by CMake's name of it; "" of others.
func languageOf(name string) string {
	switch name {
	case "CUDA":
		return "cuda"
	case "CXX":
		return "c++"
	case "C":
		return "c"
	case "ASM":
		return "asm"
	}
	return ""
}

// errNone is a build tree with nothing in it that kbuild builds.
var errNone = errors.New("no C, C++, CUDA or assembler source was found in it")

var imageRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`--image3=kind=(elf|ptx),sm=(\w+),`) })

// unnamedCode returns what nvcc ships where no option names an architecture, or where -arch=native
// finds no GPU: that differs by release, so nvcc is asked.
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

// finish puts what was found in order.
func (b *Build) finish() (*Build, error) {
	b.Targets = slices.DeleteFunc(b.Targets, func(t *Target) bool { return len(t.Groups) == 0 })
	if len(b.Targets) == 0 {
		return nil, fmt.Errorf("%s: %w", b.From, errNone)
	}
	called := map[string]string{} // targets, by their files
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
				g.Host = slices.DeleteFunc(g.Host, func(o string) bool { return strings.EqualFold(o, "-fPIC") })
			}
		}
	}
	return b, nil
}
