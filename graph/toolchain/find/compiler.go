package find

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// A compiler may be a script that calls another, or ccache, which calls distcc, which calls gcc. A
// query for its parts returns those of the compiler behind it, and omits the wrappers between. So
// scripts are read: every word that names a program is recorded as a part, which finds too many
// parts rather than too few. Options that a wrapper adds show in the steps that the compiler prints
// (-###), which also name the real compiler. If the chain cannot be followed (exec $CC "$@"),
// nothing is remembered about the compiler, and it is queried in each build.
//
// clang has no folders of its own for libstdc++, start files and linkers. In each compile it looks
// for the newest gcc in the places of the distributions, and for its own libraries beside itself.
// It probes some fifty absent paths, which differ between versions. All of them are in a few
// folders that change only when a compiler is installed. Those folders are listed.

// FindCompiler finds and identifies a gcc-like host compiler: the requested one, or the first of the
// usual names.
func (f *Finder) FindCompiler(asked string, usual ...string) toolchain.Tool {
	names := usual
	if asked != "" {
		names = []string{asked}
	}
	if p := f.first(names); p != "" {
		return f.Identified(p)
	}
	return notFound(names)
}

func notFound(names []string) toolchain.Tool {
	return toolchain.Tool{Error: fmt.Sprintf("%s was not found; install it (on Debian and Ubuntu: "+
		"apt install build-essential) or name another as host_compiler of the toolchain block.",
		strings.Join(names, " or "))}
}

// FindCompilerUpTo is FindCompiler for a toolkit that supports g++ up to a major version; 0 is any. Without
// a requested one it chooses g++ if that is supported, else the newest installed g++-N that is.
func (f *Finder) FindCompilerUpTo(limit int, asked string) toolchain.Tool {
	usual := []string{"g++", "clang++"}
	found := f.first(usual)
	if asked != "" || found == "" {
		return f.FindCompiler(asked, usual...)
	}
	version, err := f.version(found)
	if err != nil || Fits(toolchain.Tool{Path: found, Version: version}, limit) {
		return f.Identified(found)
	}
	f.Digest(found) // it may be replaced by a version that is supported
	for n := limit; n >= 5; n-- {
		if p := f.Lookup(fmt.Sprintf("g++-%d", n)); p != "" {
			return f.Identified(p)
		}
	}
	return toolchain.Tool{Error: fmt.Sprintf("this CUDA toolkit supports g++ up to version %[1]d, "+
		"and %s is version %s: install g++-%[1]d, or name another as host_compiler of the toolchain "+
		"block.", limit, found, version)}
}

// Fits reports whether a compiler is no newer than the major version of g++ that a toolkit
// supports, as far as is known.
func Fits(tool toolchain.Tool, limit int) bool {
	major, _, _ := strings.Cut(tool.Version, ".")
	n, err := strconv.Atoi(major)
	return limit == 0 || err == nil && n <= limit || IsClang(tool.Path)
}

// CFor returns the name of the C compiler beside a C++ compiler: gcc-11 for g++-11.
func CFor(cxx string) string {
	dir, base := path.Split(cxx)
	switch {
	case strings.Contains(base, "clang++"):
		return dir + strings.Replace(base, "clang++", "clang", 1)
	case strings.Contains(base, "g++"):
		return dir + strings.Replace(base, "g++", "gcc", 1)
	}
	return ""
}

func (f *Finder) version(compiler string) (string, error) {
	return f.Answer(compiler, "-dumpfullversion", "-dumpversion")
}

// clangRE matches the start of every clang's version text: "Debian clang version 15.0.6", "AMD
// clang version 14.0.0".
var clangRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\S+ )?clang version `) })

// Family returns "clang" or "gcc" by a compiler's version text, or "" if it is neither.
func Family(versionText string) string {
	switch {
	case clangRE().MatchString(versionText):
		return "clang"
	case strings.Contains(versionText, "Free Software Foundation"):
		return "gcc"
	}
	return ""
}

// Identified identifies a compiler by the programs it runs and the files it links on its own
// account.
func (f *Finder) Identified(compiler string) toolchain.Tool {
	version, err := f.version(compiler)
	text, err2 := f.Answer(compiler, "--version")
	if err = cmp.Or(err, err2); err != nil {
		// It may work once what it runs or loads has changed.
		f.Digest(compiler)
		f.Follow(compiler, map[string]string{})
		f.Libraries(compiler)
		return toolchain.Tool{Error: fmt.Sprintf("%s does not work: %v", compiler, err)}
	}
	family := Family(text)
	parts := map[string]string{"driver": compiler}
	steps := f.behindWrapper(compiler, parts)
	// objcopy for -gsplit-dwarf.
	programs := []string{"cc1plus", "cc1", "as", "ld", "collect2", "lto-wrapper", "lto1", "objcopy"}
	files := []string{"crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o",
		"crtend.o", "crtendS.o", "libgcc.a", "libgcc_eh.a", "libstdc++.so"}
	loaded := []string{"driver", "liblto_plugin.so", "LLVMgold.so"}
	if family == "clang" { // clang compiles and optimizes by itself
		programs = []string{"as", "ld", "ld.lld", "objcopy"}
		parts["LLVMgold.so"] = f.beside(compiler, "../lib/LLVMgold.so") // passed to GNU ld
		f.AddSystem(parts)
		f.AroundClang(compiler)
		f.AddConfiguration(text, parts)
		if own, strays := f.lld(compiler); strays {
			parts["ld.lld of its own"] = own
			loaded = append(loaded, "ld.lld of its own")
		}
	} else {
		files = append(files, "liblto_plugin.so")
	}
	for _, p := range programs {
		parts[p] = f.ask(compiler, "-print-prog-name=", p, true)
	}
	folders, _ := f.Answer(compiler, "-print-search-dirs")
	parts["specs"] = f.specs(folders)
	f.watchPrograms(folders, programs)
	for _, file := range files {
		parts[file] = f.ask(compiler, "-print-file-name=", file, false)
	}
	f.AddLibraries(parts, append(programs, loaded...))
	texts := []string{version, text}
	if steps != "" {
		texts = append(texts, steps)
	}
	id, err := f.Identify(parts, texts...)
	if err != nil {
		return toolchain.Tool{Error: err.Error()}
	}
	return toolchain.Tool{Path: compiler, Version: version, ID: id, Family: family}
}

// ask returns the absolute path that a compiler prints for a part of it, or "". A bare program name
// means PATH; a bare file name means that the compiler has no such file.
func (f *Finder) ask(compiler, question, name string, program bool) string {
	p, err := f.Answer(compiler, question+name)
	switch {
	case err != nil, p == "", strings.Contains(p, "\n"):
	case path.IsAbs(p) && f.Exists(p):
		return p
	case program && p == name:
		return f.Lookup(p)
	}
	return ""
}

// beside returns the file by a path relative to the folder of a compiler, links resolved, or "".
func (f *Finder) beside(compiler, name string) string {
	if dir := f.RealDir(compiler); dir != "" && f.Exists(path.Join(dir, name)) {
		return path.Join(dir, name)
	}
	return ""
}

// specs returns the specs file that a compiler reads, or "" for built-in specs.
func (f *Finder) specs(searchDirs string) string {
	folders, _ := host.ParseFolders(searchDirs)
	for _, d := range append(folders.Programs, folders.Libraries...) {
		if file := path.Join(d, "specs"); f.Exists(file) {
			return file
		}
	}
	return ""
}

// watchPrograms observes where a compiler could find other programs, by COMPILER_PATH and its
// installation. What it looks for in its installation (as, x86_64-linux-gnu-as, real-ld,
// collect-ld ...) depends on its version. Those folders change rarely, so they are listed. In
// folders of PATH only the programs are observed.
func (f *Finder) watchPrograms(searchDirs string, programs []string) {
	folders, _ := host.ParseFolders(searchDirs)
	inPath := strings.Split(f.Env["PATH"], ":")
	own := ""
	for _, d := range folders.Programs {
		if d = path.Clean(d); !slices.Contains(inPath, d) {
			f.List(d)
		}
		if _, end, ok := strings.Cut(d, "/gcc/"); ok && own == "" {
			own = end // x86_64-linux-gnu/12
		}
	}
	for _, d := range folders.Libraries {
		f.Exists(path.Join(d, own, "specs")) // lto-wrapper starts another gcc, which gets these folders
	}
	for _, program := range programs {
		f.LookupIn(program, strings.Join(folders.Programs, ":"))
	}
}

// AroundClang observes the folders in which a clang looks for gcc, for its own libraries, and for
// linkers.
func (f *Finder) AroundClang(clang string) {
	bin := f.RealDir(clang)
	dirs := []string{bin, path.Dir(bin), path.Join(bin, "../lib"), "/opt/rh", "/etc/env.d/gcc", "/etc/clang"}
	resources, _ := f.Answer(clang, "-print-resource-dir")
	for _, sub := range []string{"", "bin", "lib", "lib/linux"} {
		if path.IsAbs(resources) {
			dirs = append(dirs, path.Join(resources, sub))
		}
	}
	for _, lib := range []string{"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"} {
		dirs = append(dirs, lib+"/gcc-cross")
		for _, version := range f.Glob(lib+"/gcc", "*/*") {
			dirs = append(dirs, version, version+"/include")
		}
	}
	triple, err := f.Answer(clang, "-dumpmachine")
	for _, program := range []string{triple + "-as", triple + "-ld", triple + "-ld.lld", triple + "-lld", "as", "ld", "ld.lld"} {
		if err == nil {
			f.Lookup(program) // PATH follows clang's own folders
		}
	}
	if home := f.Env["HOME"]; path.IsAbs(home) && err == nil {
		dirs = append(dirs, home+"/.config/clang")
		// ~/.config itself is not listed: other programs write in it every day.
		for _, name := range []string{triple, "clang", "clang++", triple + "-clang", triple + "-clang++"} {
			f.Exists(path.Join(home, ".config", name+".cfg"))
		}
	}
	for _, dir := range dirs {
		f.List(dir)
	}
}

var (
	selectedGCC = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^Selected GCC installation: (.+)$`)
	})
	configurationRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^Configuration file: (.+)$`)
	})
)

// GCCOf returns the version of the gcc whose headers, libraries and start files a clang uses, and a
// file whose content identifies that gcc.
func (f *Finder) GCCOf(clang string) (version, file string) {
	printed, _ := f.Output(clang, "-v", "-E", "-x", "c++", os.DevNull, "-o", os.DevNull)
	m := selectedGCC().FindStringSubmatch(printed)
	if m == nil {
		return "", ""
	}
	return path.Base(m[1]), f.ask(clang, "-print-file-name=", "crtbegin.o", false)
}

// AddConfiguration adds the configuration files of a clang to its parts. clang names those that it
// reads by default in its version text; they may name further ones. It returns the version text
// without them: their content is part of a fingerprint, and not their paths.
func (f *Finder) AddConfiguration(version string, parts map[string]string) string {
	var todo []string
	for _, m := range configurationRE().FindAllStringSubmatch(version, -1) {
		todo = append(todo, m[1])
	}
	seen := map[string]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		file := todo[0]
		if seen[file] || !f.Exists(file) {
			continue
		}
		seen[file] = true
		// Roles have numbers, since two users have the same files at different paths.
		parts[fmt.Sprintf("configuration %d", len(seen))] = file
		text, _ := f.Read(file)
		for _, word := range strings.Fields(string(text)) {
			word = strings.ReplaceAll(word, "<CFGDIR>", path.Dir(file))
			name, ok := strings.CutPrefix(word, "@")
			if !ok {
				name, ok = strings.CutPrefix(word, "--config=")
			}
			if ok && !path.IsAbs(name) {
				name = path.Join(path.Dir(file), name)
			}
			if ok {
				todo = append(todo, name)
			}
		}
	}
	return configurationRE().ReplaceAllString(version, "")
}

// launchers are programs, not scripts, that call another compiler. Their first argument or the name
// that they are called by names it.
var launchers = []string{"ccache", "sccache", "distcc", "icecc"}

var (
	collectGCC = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^COLLECT_GCC=(.+)$`) })
	clangCC1   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^ "([^"]+)" "-cc1"`) })
)

// behindWrapper adds the wrappers and the real compiler of a wrapped compiler to parts, and returns
// the steps that the real compiler would run, or "" for a compiler that does the work itself.
func (f *Finder) behindWrapper(compiler string, parts map[string]string) string {
	printed, _ := f.Output(compiler, "-###", "-S", "-x", "c++", os.DevNull, "-o", os.DevNull)
	driver := ""
	for _, re := range []*regexp.Regexp{collectGCC(), clangCC1()} {
		if m := re.FindStringSubmatch(printed); m != nil && driver == "" {
			driver = f.Lookup(m[1])
		}
	}
	self, _ := f.Stat(compiler)
	if driver != "" && f.Real(driver) == self.Real || driver == "" && !self.Script {
		return ""
	}
	seen := f.Follow(compiler, parts)
	if driver == "" {
		return ""
	}
	parts["driver behind"] = driver
	f.AddLibraries(parts, []string{"driver behind"})
	f.Unknown = f.Unknown || !seen[f.Real(driver)] &&
		!slices.ContainsFunc(launchers, func(l string) bool { return seen[f.Real(f.Lookup(l))] })
	for _, place := range []string{f.Project, "/tmp"} {
		if place != "" && place != "/" {
			printed = strings.ReplaceAll(printed, place, "")
		}
	}
	return printed
}

// mostFollowed limits the number of programs that are read behind a script.
const mostFollowed = 256

// Follow adds the programs that a script names to parts, and recursively what those name. It
// returns all of them by their real paths.
func (f *Finder) Follow(program string, parts map[string]string) (seen map[string]bool) {
	seen = map[string]bool{}
	f.follow(program, parts, seen)
	return seen
}

func (f *Finder) follow(program string, parts map[string]string, seen map[string]bool) {
	file, _ := f.Stat(program)
	if seen[file.Real] || len(seen) > mostFollowed {
		return
	}
	seen[file.Real] = true
	if !file.Script {
		return
	}
	text, _ := f.Read(file.Real)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line names the shell
	known := map[string]bool{"": true}
	for _, word := range wordRE().FindAllString(string(text), -1) {
		if word = strings.TrimRight(word, "."); known[word] || strings.HasPrefix(word, "-") {
			continue
		}
		known[word] = true
		// The rest of a path after a variable may be relative to the script's own folder.
		named := []string{word, path.Join(path.Dir(program), word), path.Join(path.Dir(file.Real), word)}
		if !strings.Contains(word, "/") {
			named = []string{f.Lookup(word)}
		}
		for i, p := range named {
			if !path.IsAbs(p) || slices.Contains(named[:i], p) || !f.IsProgram(p) || seen[f.Real(p)] {
				continue
			}
			parts[fmt.Sprintf("behind %d %s", len(seen), path.Base(p))] = p
			f.follow(p, parts, seen)
		}
	}
}

// wordRE matches the words of a script that may name programs.
var wordRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[-/._+@~0-9A-Za-z\x{80}-\x{10ffff}]+`)
})

// HostLTO finds the tools for a compiler's link-time optimization. An archive needs an index of the
// symbols in intermediate code. ar reads gcc's objects with gcc's plugin (which gcc-ar adds);
// clang's need the llvm-ar of the same LLVM. Debian's ar loads the plugins of the newest gcc and of
// every LLVM from one folder; kbuild passes it the right plugin.
func (f *Finder) HostLTO(cxx, ar toolchain.Tool) toolchain.HostLTO {
	switch cxx.Family {
	case "gcc":
		plugin := f.ask(cxx.Path, "-print-file-name=", "liblto_plugin.so", false)
		if plugin == "" || f.ask(cxx.Path, "-print-prog-name=", "lto1", true) == "" {
			return toolchain.HostLTO{Error: fmt.Sprintf("%s was built without LTO: it has no lto1 or "+
				"no liblto_plugin.so. Name another as host_compiler of the toolchain block, or remove "+
				"host_lto.", cxx.Path)}
		}
		if ar.Path == "" {
			return toolchain.HostLTO{Error: ar.Error}
		}
		lto := f.archiver(ar.Path, map[string]string{"plugin": plugin})
		lto.Plugin = plugin
		return lto
	case "clang":
		return f.clangLTO(cxx)
	}
	return toolchain.HostLTO{}
}

func (f *Finder) clangLTO(clang toolchain.Tool) toolchain.HostLTO {
	major, _, _ := strings.Cut(clang.Version, ".")
	install := fmt.Sprintf("install it (on Debian and Ubuntu: apt install lld-%[1]s llvm-%[1]s), or remove host_lto.", major)
	lld, strays := f.lld(clang.Path)
	if lld == "" {
		return toolchain.HostLTO{Error: "there is no ld.lld of clang " + major + ": " + install}
	}
	if out, err := f.Output(lld, "--help"); err != nil || !strings.Contains(out, "--dependency-file") {
		return toolchain.HostLTO{Error: fmt.Sprintf("%s does not say what it reads (--dependency-file, "+
			"which lld has from 13 on): install a newer one, or remove host_lto.", lld)}
	}
	// Others in PATH may be too old to read clang's output.
	ar := f.beside(clang.Path, "llvm-ar")
	if ar == "" {
		ar = f.Lookup("llvm-ar-" + major)
	}
	if ar == "" {
		return toolchain.HostLTO{Error: "there is no llvm-ar of clang " + major + ": " + install}
	}
	lto := f.archiver(ar, map[string]string{})
	if strays {
		lto.LD = lld
	}
	if printed := f.tryLTO(clang.Path, lto); OtherLLVM(printed) {
		lto = toolchain.HostLTO{Error: fmt.Sprintf("clang %s, %s and %s do not fit together: %s. The "+
			"linker or the archiver of this clang is not there: %s", clang.Version, lld, ar, printed, install)}
	}
	return lto
}

// lld returns the ld.lld of a clang's own LLVM, or else the one that clang finds. strays reports
// that clang would run another than its own. clang looks first in the folder of the name that it
// was called by, and Debian's unversioned package lld installs one in /usr/bin.
func (f *Finder) lld(clang string) (lld string, strays bool) {
	found := f.ask(clang, "-print-prog-name=", "ld.lld", true)
	own := f.beside(clang, "ld.lld")
	if own == "" {
		return found, false
	}
	return own, f.RealDir(found) != f.RealDir(own)
}

// tryLTO compiles, archives and links one line and returns the error message, or "" on success.
func (f *Finder) tryLTO(clang string, lto toolchain.HostLTO) string {
	link := host.LTO{Family: "clang", Kind: "full", LD: lto.LD}.Link("", false)
	return f.Run(Command{Files: map[string]string{"a.cpp": "int kbuild_trial() { return 1; }\n"},
		Argv: []string{clang, "-flto", "-c", "a.cpp", "-o", "a.o"}, Then: [][]string{
			{lto.AR.Path, "qcsD", "a.a", "a.o"},
			slices.Concat([]string{clang, "-shared", "-nostdlib"}, link, []string{"-Wl,--whole-archive", "a.a", "-o", "a.so"}),
		}}).Complaint()
}

// archiver identifies an ar together with what it loads.
func (f *Finder) archiver(ar string, parts map[string]string) toolchain.HostLTO {
	for name, file := range f.Libraries(ar) {
		parts[name] = file
	}
	parts["driver"] = ar
	id, err := f.Identify(parts)
	if err != nil {
		return toolchain.HostLTO{Error: err.Error()}
	}
	return toolchain.HostLTO{AR: toolchain.Tool{Path: ar, Version: f.Dotted(ar), ID: id}}
}

// dottedRE finds the version in "GNU ar (GNU Binutils for Debian) 2.40".
var dottedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(\.\d+)+`) })

// Dotted returns the version that a program prints.
func (f *Finder) Dotted(program string) string {
	text, _ := f.Answer(program, "--version")
	return dottedRE().FindString(text)
}
