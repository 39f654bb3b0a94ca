package advice

import (
	"debug/elf"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

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
	return strings.TrimPrefix(object, cache.Absolute(f.Root, f.State)+"/")
}
