// Package advice says what to do about a failed command in the terms of the manifest. Toolchains
// know what the messages report (vendors.Explain); this package finds the target that defines a
// missing symbol, or the folder that has a missing header. It reads the outputs of the build, and
// refuses to guess: without evidence it adds nothing to the message.
package advice

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Failure describes a failed command and its build.
type Failure struct {
	Action  *graph.Action
	Said    string                  // output of the command
	Root    string                  // of the project
	Build   string                  // the build tree, as in the names of files
	Actions iter.Seq[*graph.Action] // all actions of the graph
	// Targets are those of the plan; none if only a part of its actions was loaded.
	Targets []*graph.Target
	Maker   func(string) *graph.Action // the action that writes a file; nil if none does
}

// maxAdvice limits the number of pieces of advice.
const maxAdvice = 4

// Help returns sentences, the most useful first, or none without evidence.
func (f *Failure) Help() (help []string) {
	add := func(advice ...string) {
		for _, h := range advice {
			if !slices.Contains(help, h) && len(help) < maxAdvice {
				help = append(help, h)
			}
		}
	}
	faults := vendors.Explain(f.Action, f.Said)
	resolved := map[toolchain.FaultKind]bool{}
	for _, fault := range faults {
		switch {
		case fault.Kind == toolchain.Advised:
			var names []string
			for _, n := range fault.Names {
				names = append(names, modules.Demangled(n))
			}
			add(strings.NewReplacer("{names}", list(names), "{are}", are(names)).Replace(fault.Advice))
		case fault.Kind == toolchain.Twice:
			add(f.twice(fault)...)
		case resolved[fault.Kind]:
		case fault.Kind == toolchain.Undefined:
			add(f.undefined(faults)...)
		case fault.Kind == toolchain.NoHeader:
			add(f.headers(names(faults, fault.Kind))...)
		case fault.Kind == toolchain.NoLibrary:
			add(f.libraries(names(faults, fault.Kind))...)
		}
		resolved[fault.Kind] = true
	}
	return help
}

// names returns the names in the faults of a kind, each once.
func names(faults []toolchain.Fault, kind toolchain.FaultKind) (all []string) {
	for _, f := range faults {
		if f.Kind == kind && !slices.Contains(all, f.Names[0]) {
			all = append(all, f.Names[0])
		}
	}
	return all
}

// list joins names: "a, b and c". It shortens long lists.
func list(names []string) string {
	const few = 5
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// are returns the verb for a number of names.
func are(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// depend returns the advice to add a target to the deps of the failed one. All advice about deps is
// generated here, where it is compared with the manifest: existing deps are not advised.
func (f *Failure) depend(on string) string {
	if kind, _, _ := strings.Cut(on, "."); kind == "executable" || kind == "module" {
		return "only libraries are linked: move it into one that is in the deps of both"
	}
	byLabel := map[string]*graph.Target{}
	for _, t := range f.Targets {
		byLabel[t.Label] = t
	}
	// The setting that makes a library link its device code itself, if the failed link is one of
	// device code, and the name of its attribute.
	own, attribute, links := "", "", false
	for a := range f.Actions {
		switch product := a.Kind.Info().Makes; {
		case a.Target != on || f.Action.Work.Link == nil:
		case product == graph.StaticLibrary:
			own, attribute = "device_link = true", "device_link"
		case product == graph.SharedLibrary:
			own, attribute = `type = "shared"`, "type"
		case a.Work.Link != nil:
			links = true
		}
	}
	if !links {
		own = ""
	}
	seen := map[string]bool{}
	for todo := []string{f.Action.Target}; len(todo) > 0; todo = todo[1:] {
		t := byLabel[todo[0]]
		switch {
		case t == nil && todo[0] == f.Action.Target:
			return "is " + on + " in the deps of " + f.Action.Target + "?"
		case todo[0] == on && own != "":
			return on + " is in the deps of " + f.Action.Target + ", and " + own + " keeps its device code to itself: drop " + attribute
		case todo[0] == on:
			return on + " is in the deps of " + f.Action.Target + " already"
		case t == nil || seen[todo[0]]:
			continue
		}
		seen[todo[0]] = true
		todo = append(todo, t.Deps...)
	}
	if own != "" {
		return own + " of " + on + " keeps its device code to itself: drop " + attribute + ", and add " + on + " to the deps of " + f.Action.Target
	}
	return "add " + on + " to the deps of " + f.Action.Target
}

func (f *Failure) abs(file string) string { return cache.Absolute(f.Root, file) }

// at returns a target with its position in the manifest.
func at(label string, pos graph.Pos) string {
	if pos.String() == "" {
		return label
	}
	return label + " (" + pos.String() + ")"
}

// manyFiles limits a walk through the project: advice may take a second, not more.
const manyFiles = 20000

// headers explains headers that were not found.
func (f *Failure) headers(names []string) (help []string) {
	for _, name := range names {
		if path.IsAbs(name) || strings.HasSuffix(name, ".o") {
			continue
		}
		if g := f.generator(name); g != nil {
			help = append(help, name+" is made by "+at(g.Target, g.Pos)+": "+f.depend(g.Target))
			continue
		}
		var dirs []string
		for _, file := range f.find(path.Base(name)) {
			if dir, ok := strings.CutSuffix("./"+file, "/"+name); ok && len(dirs) < 3 {
				dirs = append(dirs, strings.TrimPrefix(dir, "./"))
			}
		}
		for _, dir := range dirs {
			if slices.Contains(f.Action.Argv, "-I"+dir) {
				continue // the compiler searches it
			}
			where := dir
			if dir == "." {
				where = "the root of the project"
			}
			help = append(help, fmt.Sprintf("%s is in %s: add includes = [%q] to %s", name, where, dir, f.Action.Target))
		}
		if len(dirs) == 0 && ofToolkit(name) {
			help = append(help, fmt.Sprintf(missingPart, name))
		}
	}
	return help
}

// generator returns the generate action that writes a header and that the failed action does not
// wait for, or nil.
func (f *Failure) generator(name string) *graph.Action {
	for a := range f.Actions {
		for _, o := range a.Outputs {
			if a.Kind.Info().Generates && strings.HasSuffix(o, "/"+name) &&
				!slices.Contains(f.Action.OrderOnly, o) {
				return a
			}
		}
	}
	return nil
}

// ofToolkit reports whether a name is that of a library of a CUDA toolkit, or of its header.
func ofToolkit(name string) bool {
	return regexp.MustCompile(`^(cu(blas|fft|rand|solver|sparse|file|pti)|npp|nv(rtc|jpeg|JitLink|fatbin|ml))`).MatchString(name)
}

const missingPart = `%s is a part of the CUDA toolkit that is not installed: install the toolkit's package of it ` +
	`(development files), or name it in parts of toolchain "cuda" where that has from = "pypi"`

var systemDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// misspelt returns a library that the link searches whose name differs by one character from name,
// or "".
func (f *Failure) misspelt(name string) string {
	dirs := slices.Clone(systemDirs)
	for _, arg := range f.Action.Argv {
		if dir, ok := strings.CutPrefix(arg, "-L"); ok {
			dirs = append(dirs, f.abs(dir))
		}
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			file, isLibrary := strings.CutPrefix(e.Name(), "lib")
			base := strings.TrimSuffix(strings.TrimSuffix(file, ".a"), ".so")
			if isLibrary && base != file && min(len(name), len(base)) > 3 && oneEdit(name, base) {
				return base
			}
		}
	}
	return ""
}

// oneEdit reports whether a becomes b if one character is added, removed or replaced.
func oneEdit(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1
}

// find returns the files of a name in the project, by paths relative to its root. It skips the
// build tree and hidden folders.
func (f *Failure) find(name string) (files []string) {
	seen := 0
	filepath.WalkDir(f.Root, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.Root, p)
		switch seen++; {
		case seen > manyFiles:
			return fs.SkipAll
		case err != nil || e.IsDir() && rel != "." && (strings.HasPrefix(e.Name(), ".") || p == f.abs(f.Build)):
			return fs.SkipDir
		case !e.IsDir() && e.Name() == name:
			files = append(files, rel)
		}
		return nil
	})
	return files
}

// libraries explains libraries that a link did not find.
func (f *Failure) libraries(names []string) (help []string) {
	for _, name := range names {
		files := append(f.find("lib"+name+".a"), f.find("lib"+name+".so")...)
		switch target := f.target(name); {
		case target != "":
			help = append(help, fmt.Sprintf("%s is a target of this project: %s, and leave -l%s out", target, f.depend(target), name))
		case files != nil:
			help = append(help, fmt.Sprintf("%s is there: declare it as a prebuilt, and add that to the deps of %s in place of -l%s", files[0], f.Action.Target, name))
		default:
			var real string // a shared library that exists only with its version in its name
			for _, dir := range append(slices.Clone(systemDirs), "/usr/local/lib") {
				found, _ := filepath.Glob(filepath.Join(dir, "lib"+name+".so.*"))
				if _, err := os.Stat(filepath.Join(dir, "lib"+name+".so")); err != nil && found != nil && real == "" {
					real = slices.Min(found)
				}
			}
			if real != "" {
				help = append(help, fmt.Sprintf("%s is there, but not the lib%s.so that links take: install the development package of the library", real, name))
			} else if near := f.misspelt(name); near != "" {
				help = append(help, fmt.Sprintf("no library is called %s; did you mean %q in the libs of %s?", name, near, f.Action.Target))
			} else if ofToolkit(name) {
				help = append(help, fmt.Sprintf(missingPart, name))
			}
		}
	}
	return help
}

// target returns the target of the library with a name, or "".
func (f *Failure) target(name string) string {
	for a := range f.Actions {
		if a.Kind.Info().Makes == "" {
			continue
		}
		for _, o := range a.Outputs {
			if base := path.Base(o); base == "lib"+name+".a" || base == "lib"+name+".so" {
				return a.Target
			}
		}
	}
	return ""
}

// The host's half of an object has a symbol for each device function that others may call. cudafe++
// writes a body for it, in any form of the device code. So the ELF symbol table shows which object
// defines a device function. That works for LTO-IR too, which only NVIDIA's tools can read.

// definer is an object that defines symbols, with its source and target.
type definer struct {
	source, target, mode string
	pos                  graph.Pos
	symbols              []string // the wanted ones that it defines, readable
	linked               bool     // the failed link reads it
}

// definers returns the objects of the project that define some of symbols, which may be mangled, or
// spelled as ld prints them. left are the symbols that no local object defines.
func (f *Failure) definers(symbols []string) (found []*definer, left []string) {
	want := map[string]bool{}
	for _, s := range symbols {
		want[s], want[modules.Demangled(s)] = true, true
	}
	has, linked := map[string]bool{}, f.linked()
	for a := range f.Actions {
		for _, o := range a.Outputs {
			if path.Ext(o) != ".o" || a.Intermediate || a.Work.Link != nil {
				continue
			}
			d := &definer{source: a.Name, target: a.Target, mode: a.Mode, pos: a.Pos, linked: slices.Contains(linked, o)}
			for _, s := range definedIn(f.abs(o)) {
				if name := modules.Demangled(s); want[s] || want[name] {
					d.symbols = append(d.symbols, name)
					has[s], has[name] = true, true
				}
			}
			if d.symbols != nil {
				found = append(found, d)
			}
		}
	}
	for _, s := range symbols {
		if !has[s] && !has[modules.Demangled(s)] && !slices.Contains(left, modules.Demangled(s)) {
			left = append(left, modules.Demangled(s))
		}
	}
	return found, left
}

// definedIn returns the symbols that an object exports, or none for another file.
func definedIn(file string) (out []string) {
	r, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer r.Close()
	e, err := fatbin.OpenELF(r)
	if err != nil {
		return nil
	}
	symbols, err := e.Symbols()
	if err != nil {
		return nil
	}
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL && (kind == elf.STT_FUNC || kind == elf.STT_OBJECT) {
			out = append(out, s.Name)
		}
	}
	return out
}

// undefined explains functions that a link does not find.
func (f *Failure) undefined(faults []toolchain.Fault) (help []string) {
	if f.Action.Link().Check {
		return nil // the error of that link says it
	}
	symbols, users := names(faults, toolchain.Undefined), map[string][]string{}
	for _, fault := range faults {
		for _, file := range fault.Files {
			name := modules.Demangled(fault.Names[0])
			if a := f.Maker(file); fault.Kind == toolchain.Undefined && a != nil && !slices.Contains(users[name], a.Name) {
				users[name] = append(users[name], a.Name)
			}
		}
	}
	definers, left := f.definers(symbols)
	for _, d := range definers {
		name := list(d.symbols) + f.used(d.symbols, users) + " " + are(d.symbols) + " defined in " + d.source + " of " + at(d.target, d.pos)
		switch {
		case d.target == f.Action.Target && d.mode == "whole", d.linked && d.mode == "whole":
			help = append(help, name+`, which is compiled with mode = "whole" and keeps its device code to itself: set mode = "rdc" or "lto" there`)
		// The link has it, but ignored it for an unknown reason.
		case d.target == f.Action.Target || f.brings(d.target):
		case d.mode == "whole" && !f.Action.Kind.Info().LinksHost():
			help = append(help, name+`, compiled with mode = "whole": set mode = "rdc" or "lto" there; `+f.depend(d.target))
		default:
			help = append(help, name+": "+f.depend(d.target))
		}
	}
	if len(left) > 0 {
		if where := f.mentioned(left); where != "" {
			return append(help, list(left)+f.used(left, users)+" "+are(left)+" in no object that is built by now; "+where)
		}
		text := strings.TrimSuffix("no object that is built here defines "+list(left)+f.used(left, users), ",")
		help = append(help, text+": is a source missing in "+f.Action.Target+", or a library in its deps?")
	}
	return help
}

// brings reports whether a target is already in the link.
func (f *Failure) brings(target string) bool {
	if f.Action.Work.Link == nil {
		return false
	}
	for _, owner := range f.Action.Link().Owners {
		if owner == target {
			return true
		}
	}
	return false
}

// used returns ", which a.cu uses,", or "" if the users are unknown: the sources that the linker
// names, or else the sources of the link whose text contains the name.
func (f *Failure) used(symbols []string, users map[string][]string) string {
	var sources []string
	for _, s := range symbols {
		by := users[s]
		for _, in := range f.linked() {
			if a := f.Maker(in); len(users[s]) == 0 && a != nil && mentions(f.abs(a.Name), plainName(s)) {
				by = append(by, a.Name)
			}
		}
		for _, name := range by {
			if !slices.Contains(sources, name) {
				sources = append(sources, name)
			}
		}
	}
	switch len(sources) {
	case 0:
		return ""
	case 1:
		return ", which " + sources[0] + " uses,"
	}
	return ", which " + list(sources) + " use,"
}

// linked returns the objects and archives that the link reads, before they are sliced by
// architecture.
func (f *Failure) linked() (files []string) {
	for _, in := range f.Action.Inputs {
		if a := f.Maker(in); a != nil && a.Kind.Info().Cuts {
			in = a.Inputs[0]
		}
		files = append(files, in)
	}
	return files
}

// mentioned looks for a source of another target that contains the name of one of symbols, and
// whose object does not exist. It returns the advice for it, or "".
func (f *Failure) mentioned(symbols []string) string {
	for a := range f.Actions {
		if a.Target == f.Action.Target || a.Intermediate || f.brings(a.Target) || len(a.Outputs) == 0 || path.Ext(a.Outputs[0]) != ".o" {
			continue
		}
		if _, err := os.Stat(f.abs(a.Outputs[0])); err == nil {
			continue
		}
		for _, s := range symbols {
			if mentions(f.abs(a.Name), plainName(s)) {
				return a.Name + " of " + at(a.Target, a.Pos) + " has the name: if it defines it, " + f.depend(a.Target)
			}
		}
	}
	return ""
}

// plainName returns the last part of the name of a function: twice for S::twice(int).
func plainName(symbol string) string {
	name, _, _ := strings.Cut(symbol, "(")
	name, _, _ = strings.Cut(name, "<")
	name = name[strings.LastIndexAny(name, ": ")+1:]
	return name
}

func mentions(file, name string) bool {
	text, err := os.ReadFile(file)
	return err == nil && name != "" && strings.Contains(string(text), name)
}

// twice explains symbols that two inputs of a link define.
func (f *Failure) twice(fault toolchain.Fault) []string {
	var sources []string
	for _, file := range fault.Files { // the later one first
		sources = append([]string{f.source(file)}, sources...)
	}
	if sources == nil {
		definers, _ := f.definers(fault.Names)
		for _, d := range definers {
			if d.linked || d.target == f.Action.Target || f.brings(d.target) {
				sources = append(sources, d.source)
			}
		}
	}
	if len(sources) < 2 {
		return nil
	}
	return []string{modules.Demangled(fault.Names[0]) + " is defined in " + list(sources) + ": make it inline or static, or leave one of them out of " + f.Action.Target}
}

// source returns the source of an object.
func (f *Failure) source(object string) string {
	if a := f.Maker(object); a != nil && a.Name != "" {
		return a.Name
	}
	return strings.TrimPrefix(object, f.Build+"/")
}
