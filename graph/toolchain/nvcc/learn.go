package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// learner determines the role of each file in a dry run.
type learner struct {
	files map[string]Role   // by name in the dry run
	texts []*Pass           // preprocessor passes
	stubs map[string]string // architecture by file name without folder
	stub  string            // the stub that the host code includes

	// File name without folder of the second fatbin that a stub includes, that of tile code.
	tile string
}

// step parses one command of the dry run.
func (l *learner) step(s Step) (*Pass, error) {
	if s.Tool == "" {
		return nil, fmt.Errorf("nvcc --dryrun shows a step that is not known: %s", path.Base(s.Argv[0]))
	}
	arch, err := archOf(s)
	if err != nil {
		return nil, err
	}
	p := &Pass{Tool: s.Tool, Arch: arch}
	if s.Tool == "gcc" {
		p.Tool = "host"
		if slices.Contains(s.Argv, "-E") {
			p.Tool = "preprocess"
		}
	}
	for i := 1; i < len(s.Argv); i++ {
		a := s.Argv[i]
		next := ""
		if i+1 < len(s.Argv) {
			next = s.Argv[i+1]
		}
		// Affects how it runs, not its output: kbuild has a jobserver of its own.
		if a == "-jobserver" || a == "--jobserver" {
			continue
		}
		handled, skip := l.option(p, s, a, next)
		if handled {
			i += skip
			continue
		}
		if err := l.plain(p, a); err != nil {
			return nil, err
		}
	}
	for _, w := range p.argv {
		if w.role == "" && (strings.Contains(w.prefix, askKeep) || strings.Contains(w.prefix, askStem) || strings.Contains(w.prefix, toolchain.AskOutput)) {
			return nil, fmt.Errorf("%s has an argument that is not known: %q", s.Tool, w.prefix)
		}
	}
	return p, nil
}

// archOf returns the architecture of a step, "" if the tool has none.
func archOf(s Step) (string, error) {
	if !slices.Contains([]string{"cicc", "ptxas", "tileiras", "nvlink"}, s.Tool) {
		return "", nil
	}
	for i, a := range s.Argv {
		name, value, joined := strings.Cut(a, "=")
		if !slices.Contains([]string{"-arch", "--arch", "-gpu-name", "--gpu-name"}, name) {
			continue
		}
		if !joined && i+1 < len(s.Argv) {
			value = s.Argv[i+1]
		}
		return value, nil
	}
	return "", fmt.Errorf("%s does not say for which architecture it runs", s.Tool)
}

// option parses an argument whose meaning depends on the tool. skip is the number of further
// arguments that belong to it.
func (l *learner) option(p *Pass, s Step, a, next string) (handled bool, skip int) {
	var w word
	switch s.Tool {
	case "cicc", "cudafe++":
		return l.frontEnd(p, s, a, next)
	case "fatbinary":
		return l.fatbinary(p, s, a)
	case "ptxas", "nvlink", "tileiras":
		if file, ok := strings.CutPrefix(a, "--register-link-binaries="); ok {
			w = l.writes(p, file, RoleRegister.Of(p.Arch))
			w.prefix = "--register-link-binaries="
			p.argv = append(p.argv, w)
			return true, 0
		}
		if a != "-o" {
			return false, 0
		}
		role := RoleCubin
		if s.Tool == "tileiras" {
			role = RoleTileCubin
		}
		w = l.writes(p, next, role.Of(p.Arch))
	case "gcc":
		switch {
		case a == "-o" && p.Tool == "preprocess":
			w = l.writes(p, next, RoleText.Of(next))
		case a == "-o":
			w = l.writes(p, next, RoleOutput)
		case a == "-D": // -D "X=..." of 11.8
			p.argv = append(p.argv, word{prefix: a + next})
			return true, 1
		default:
			return false, 0
		}
	}
	p.argv = append(p.argv, word{prefix: a}, w)
	return true, 1
}

// frontEnd is option for cicc and cudafe++.
func (l *learner) frontEnd(p *Pass, s Step, a, next string) (handled bool, skip int) {
	var w word
	cudafe := s.Tool == "cudafe++"
	switch a {
	case "--gen_module_id_file": // kbuild supplies the id
		return true, 0
	case "--gen_c_file_name", "--gen_device_file_name":
		// No pass reads cicc's, but without the option cicc writes it into its working directory.
		w = word{role: RoleScratch.Of(strings.TrimPrefix(path.Ext(next), "."))}
		if cudafe {
			w = l.writes(p, next, RoleHostCode)
		}
	case "--module_id_file_name":
		w = l.reads(p, RoleModuleID)
	case "--include_file_name":
		w = word{prefix: FatbinName}
	case "--include_alt_file_name":
		l.tile, w = path.Base(next), word{prefix: TileName}
	case "--tile_bc_file_name":
		w = l.writes(p, next, RoleTileIR.Of(p.Arch))
	case "--orig_src_path_name", "--orig_src_file_name":
		w = word{role: RoleNamed}
	case "--stub_file_name":
		if cudafe {
			l.stub = path.Base(next)
			w = word{prefix: graph.StubName} // for the #include in its output
		} else {
			l.stubs[path.Base(next)] = p.Arch
			w = l.writes(p, next, RoleStub.Of(p.Arch))
		}
	case "-o":
		role := RolePTX.Of(p.Arch)
		switch {
		case slices.Contains(s.Argv, "--tile-only"):
			role = RoleTileIR.Of(p.Arch)
		case slices.Contains(s.Argv, "-lto"):
			role = RoleLTOIR.Of(p.Arch)
		}
		w = l.writes(p, next, role)
	case "-olto":
		w = l.writes(p, next, RoleLTOIR.Of(p.Arch))
	default:
		return false, 0
	}
	p.argv = append(p.argv, word{prefix: a}, w)
	return true, 1
}

// fatbinary parses the outputs of fatbinary, which writes two forms. kbuild keeps the plain file,
// but the C text if the next step reads that, in a device link or an object with tile code.
func (l *learner) fatbinary(p *Pass, s Step, a string) (handled bool, skip int) {
	asText := slices.Contains(s.Argv, "-link") || l.tile != ""
	option, file, ok := strings.Cut(a, "=")
	role := RoleFatbin
	switch {
	case !ok || option != "--create" && option != "--embedded-fatbin":
		return false, 0
	case option == "--create" && asText && l.files[file] == "":
		return true, 0
	case option == "--create":
	case !asText:
		l.files[file] = RoleFatbinC // the stub includes it under kbuild's name
		return true, 0
	case path.Base(file) == l.tile:
		role = RoleTileC
	default:
		role = RoleFatbinC
	}
	w := l.writes(p, file, role)
	w.prefix = option + "="
	p.argv = append(p.argv, w)
	return true, 0
}

// The names by which generated host code includes other generated files.
const (
	FatbinName = "kernels.fatbin.c"
	TileName   = "kernels.tile.fatbin.c"
)

// writes records an output. The output of the unsplit command keeps its role.
func (l *learner) writes(p *Pass, file string, role Role) word {
	if l.files[file] == RoleOutput {
		role = RoleOutput
	}
	l.files[file] = role
	if role.kind() == RoleText {
		l.texts = append(l.texts, p)
	}
	p.Out = append(p.Out, role)
	return word{role: role}
}

func (r Role) kind() Role {
	k, _, _ := strings.Cut(string(r), ":")
	return Role(k)
}

func (l *learner) reads(p *Pass, role Role) word {
	if !slices.Contains(p.In, role) {
		p.In = append(p.In, role)
	}
	return word{role: role}
}

// plain parses an argument without an option before it: a file of an earlier step, or text to pass
// on. The file may be the end of an argument like --image3=kind=elf,sm=80,file=F.
func (l *learner) plain(p *Pass, a string) error {
	file, at := a, 0
	if i := strings.Index(a, askKeep+"/"); i > 0 {
		file, at = a[i:], i
	} else if i := strings.LastIndexAny(a, "=,"); i >= 0 && l.files[a[i+1:]] == RoleSource {
		file, at = a[i+1:], i+1
	}
	suffix := ""
	if i := strings.IndexByte(file, '"'); i >= 0 { // -DFATBINFILE="\"F\""
		file, suffix = file[:i], file[i:]
	}
	role, ok := l.files[file]
	if !ok {
		p.argv = append(p.argv, word{prefix: a})
		return nil
	}
	if role.kind() == RoleText {
		var err error
		if role, err = l.textFor(p, file, role); err != nil {
			return err
		}
	}
	w := word{role: RoleNamed} // --ident of fatbinary
	if role != RoleSource || p.Tool != "fatbinary" {
		w = l.reads(p, role)
	}
	w.prefix, w.suffix = a[:at], suffix
	p.argv = append(p.argv, w)
	return nil
}

// textFor sets the role of a preprocessed text by its reader: cicc's architecture, or the host.
func (l *learner) textFor(p *Pass, file string, role Role) (Role, error) {
	arch := p.Arch
	if p.Tool == "cudafe++" {
		arch = "host"
	}
	want := RoleText.Of(arch)
	if arch == "" || role != RoleText.Of(file) && role != want {
		return "", fmt.Errorf("%s is read by %s and by another step", file, p.Tool)
	}
	for _, pp := range l.texts {
		if pp.Out[0] == role {
			pp.Out[0], pp.Arch = want, arch
			for i := range pp.argv {
				if pp.argv[i].role == role {
					pp.argv[i].role = want
				}
			}
		}
	}
	l.files[file] = want
	return want, nil
}

// LearnHostText returns the pass that preprocesses for the host, from a dry run of a command that
// writes a dependency file. A command without an object preprocesses for the host only for the
// names of files, and only if it writes a dependency file.
func LearnHostText(text string) (*Pass, error) {
	var steps strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#$ -- Filter Dependencies -- ") { // nvcc does that itself
			steps.WriteString(line)
		}
	}
	d, err := ParseDryRun(steps.String())
	if err != nil {
		return nil, err
	}
	var found *Pass
	for _, s := range d.Steps {
		if s.Tool != "gcc" || !slices.Contains(s.Argv, "-E") || slices.ContainsFunc(s.Argv, func(a string) bool { return strings.HasPrefix(a, "-D__CUDA_ARCH__=") }) {
			continue
		}
		l := &learner{files: map[string]Role{QuerySource: RoleSource}}
		p, err := l.step(s)
		if err != nil {
			return nil, err
		}
		if found != nil || len(p.Out) != 1 {
			return nil, fmt.Errorf("it is not plain which step preprocesses for the host")
		}
		p.rename(p.Out[0], RoleText.Of("host"))
		p.Arch, found = "host", p
	}
	if found == nil {
		return nil, fmt.Errorf("no step preprocesses for the host")
	}
	return found, nil
}
