package toolchain

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Role is what a file is to the passes of one compile or link. Roles of an architecture carry it after a
// colon: "ptx:compute_80", "cubin:sm_80".
type Role string

// The roles of files.
const (
	RoleSource    Role = "source"    // the .cu file
	RoleOutput    Role = "output"    // what the whole nvcc command makes
	RoleText      Role = "text"      // preprocessed: "text:compute_80"; "text:host" for the host's pass
	RolePTX       Role = "ptx"       // "ptx:compute_80"
	RoleLTOIR     Role = "ltoir"     // "ltoir:compute_80"
	RoleStub      Role = "stub"      // "stub:compute_80": host code that launches and registers kernels
	RoleCubin     Role = "cubin"     // "cubin:sm_80"
	RoleFatbin    Role = "fatbin"    // device code of all architectures
	RoleFatbinC   Role = "fatbin.c"  // the same as C text
	RoleHostCode  Role = "cudafe"    // cudafe1.cpp: the source with its device code taken out
	RoleModuleID  Role = "module_id" // a name for the source that is unique in a program
	RoleRegister  Role = "reg.c"     // "reg.c:sm_80": nvlink's list of the modules that it linked
	RoleScratch   Role = "scratch"   // "scratch:gpu": written and never read
	RoleLinkInput Role = "inputs"    // stands for all inputs of a device link
)

// Of gives the role of an architecture.
func (r Role) Of(arch string) Role { return r + ":" + Role(arch) }

// Pass is one command of nvcc with roles in place of its files.
type Pass struct {
	Tool string
	Arch string // "compute_80" for preprocess and cicc, "sm_80" for ptxas and nvlink; "host"; "" if of none
	argv []word
	In   []Role // in the order of the command line
	Out  []Role
}

// word is an argument with a role inside it: prefix, file, suffix. Without a role it is prefix alone.
type word struct {
	prefix string
	role   Role
	suffix string
}

// Argv gives the command with a file for each role. The program is program.
func (p *Pass) Argv(program string, file func(Role) string) []string {
	out := []string{program}
	for _, w := range p.argv {
		if w.role == "" {
			out = append(out, w.prefix)
		} else {
			out = append(out, w.prefix+file(w.role)+w.suffix)
		}
	}
	return out
}

// Inputs is the word that stands for all inputs in the argv of an nvlink pass.
const Inputs = "<inputs>"

// ListMacro is the macro that spells all architectures of a compile in every pass of it.
const ListMacro = "__CUDA_ARCH_LIST__"

// CompilePasses is one `nvcc -c`, `-dc`, `-ptx`, `-cubin` or `-fatbin` taken apart.
type CompilePasses struct {
	Env        []string
	Preprocess map[string]*Pass // by "compute_80" and "host"; each writes one RoleText
	CICC       []*Pass          // one for each virtual architecture
	PTXAS      []*Pass
	Fatbinary  *Pass  // nil if the output is PTX or a cubin; writes RoleFatbin or RoleOutput
	Cudafe     *Pass  // nil if the output is no object
	Host       *Pass  // g++ -c of RoleHostCode, nil if the output is no object
	Primary    string // the architecture whose stub the host code includes
	Said       string

	texts []*Pass
}

// LinkPasses is one `nvcc -dlink` taken apart.
type LinkPasses struct {
	Env       []string
	NVLink    []*Pass
	Fatbinary *Pass // nil if the output is a cubin or PTX
	Host      *Pass // g++ -c of the toolkit's link.stub; nil if the output is no object
	Said      string
}

// learner finds out what each file of a dry run is.
type learner struct {
	files map[string]Role   // by name in the dry run
	texts []*Pass           // that preprocess
	stubs map[string]string // architecture by file name without folder
	stub  string            // the one that the host code includes
}

// LearnCompile finds the passes of a compile.
func LearnCompile(text string) (*CompilePasses, error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	l := &learner{files: map[string]Role{AskSource: RoleSource, AskOutput: RoleOutput}, stubs: map[string]string{}}
	c := &CompilePasses{Env: d.Env, Said: d.Said, Preprocess: map[string]*Pass{}}
	for _, s := range d.Steps {
		p, err := l.step(s)
		if err != nil {
			return nil, err
		}
		if err := c.place(p); err != nil {
			return nil, err
		}
	}
	c.Primary = l.stubs[l.stub]
	if c.Host != nil && c.Primary == "" {
		return nil, fmt.Errorf("no step writes %s, which cudafe++ includes", l.stub)
	}
	return c, c.complete()
}

// place puts a pass where it belongs.
func (c *CompilePasses) place(p *Pass) error {
	twice := false
	switch p.Tool {
	case "preprocess":
		c.texts = append(c.texts, p) // it is known for which architecture when it is read
	case "cicc":
		c.CICC = append(c.CICC, p)
	case "ptxas":
		c.PTXAS = append(c.PTXAS, p)
	case "fatbinary":
		twice, c.Fatbinary = c.Fatbinary != nil, p
	case "cudafe++":
		twice, c.Cudafe = c.Cudafe != nil, p
	case "host":
		twice, c.Host = c.Host != nil, p
	default:
		return fmt.Errorf("a compile runs %s", p.Tool)
	}
	if twice {
		return fmt.Errorf("a compile runs %s twice", p.Tool)
	}
	return nil
}

// complete checks that every file that a pass reads is made by another.
func (c *CompilePasses) complete() error {
	all := append(slices.Clone(c.CICC), c.PTXAS...)
	for _, p := range c.texts {
		if p.Arch == "" {
			return fmt.Errorf("no step reads what a preprocessor writes")
		}
		c.Preprocess[p.Arch] = p
		all = append(all, p)
	}
	for _, p := range []*Pass{c.Fatbinary, c.Cudafe, c.Host} {
		if p != nil {
			all = append(all, p)
		}
	}
	if err := complete(all, RoleSource, RoleModuleID); err != nil {
		return err
	}
	if (c.Cudafe == nil) != (c.Host == nil) {
		return fmt.Errorf("a compile runs only one of cudafe++ and a host compiler")
	}
	if c.Host != nil && c.Fatbinary == nil || len(c.CICC) == 0 {
		return fmt.Errorf("a compile makes no device code")
	}
	if c.Host == nil {
		for _, p := range c.CICC {
			p.drop(1, RoleStub, RoleScratch)
		}
	}
	slices.SortFunc(c.CICC, func(a, b *Pass) int { return strings.Compare(a.Arch, b.Arch) })
	for _, p := range c.CICC {
		if !slices.Contains(p.In, RoleText.Of(p.Arch)) {
			return fmt.Errorf("cicc for %s reads the text of another architecture", p.Arch)
		}
	}
	return nil
}

// drop leaves out files that nobody reads, with the options words before each.
func (p *Pass) drop(options int, kinds ...Role) {
	for i := options; i < len(p.argv); i++ {
		if slices.Contains(kinds, p.argv[i].role.kind()) {
			p.argv = slices.Delete(p.argv, i-options, i+1)
			i -= options + 1
		}
	}
	p.Out = slices.DeleteFunc(p.Out, func(r Role) bool { return slices.Contains(kinds, r.kind()) })
}

// complete wants a writer for each file, one only, except those given from outside.
func complete(all []*Pass, given ...Role) error {
	made := map[Role]bool{}
	for _, p := range all {
		for _, r := range p.Out {
			if made[r] {
				return fmt.Errorf("two steps write %s", r)
			}
			made[r] = true
		}
	}
	if !made[RoleOutput] {
		return fmt.Errorf("no step writes the output")
	}
	for _, p := range all {
		for _, r := range p.In {
			if !made[r] && !slices.Contains(given, r) {
				return fmt.Errorf("no step writes %s, which %s reads", r, p.Tool)
			}
		}
	}
	return nil
}

// LearnLink finds the passes of a device link.
func LearnLink(text string) (*LinkPasses, error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	l := &learner{files: map[string]Role{AskInput: RoleLinkInput, AskOutput: RoleOutput}}
	c := &LinkPasses{Env: d.Env, Said: d.Said}
	var all []*Pass
	for _, s := range d.Steps {
		p, err := l.step(s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		switch p.Tool {
		case "nvlink":
			c.NVLink = append(c.NVLink, p)
		case "fatbinary":
			c.Fatbinary = p
		case "host":
			c.Host = p
		default:
			return nil, fmt.Errorf("a device link runs %s", p.Tool)
		}
	}
	if len(c.NVLink) == 0 {
		return nil, fmt.Errorf("a device link does not run nvlink")
	}
	if c.Host == nil { // for -ptx nvcc asks for it, and nvlink does not write it
		for _, p := range c.NVLink {
			p.drop(0, RoleRegister)
		}
	}
	return c, complete(all, RoleLinkInput)
}

// step reads one command.
func (l *learner) step(s Step) (*Pass, error) {
	p := &Pass{Tool: s.Tool, Arch: archOf(s)}
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
		if w.role == "" && (strings.Contains(w.prefix, askKeep) || strings.Contains(w.prefix, askStem) || strings.Contains(w.prefix, AskOutput)) {
			return nil, fmt.Errorf("%s has an argument that is not known: %q", s.Tool, w.prefix)
		}
	}
	return p, nil
}

// archOf is the architecture that a step is for.
func archOf(s Step) string {
	for i, a := range s.Argv {
		switch {
		case s.Tool == "cicc" && a == "-arch" && i+1 < len(s.Argv):
			return s.Argv[i+1]
		case s.Tool == "cicc" && strings.HasPrefix(a, "-arch="), s.Tool == "ptxas" && strings.HasPrefix(a, "-arch="):
			return strings.TrimPrefix(a, "-arch=")
		case s.Tool == "nvlink" && strings.HasPrefix(a, "--arch="):
			return strings.TrimPrefix(a, "--arch=")
		}
	}
	return ""
}

// option reads an argument whose meaning a tool fixes, and says how many arguments after it belong to it.
func (l *learner) option(p *Pass, s Step, a, next string) (handled bool, skip int) {
	put := func(words ...word) { p.argv = append(p.argv, words...) }
	switch s.Tool {
	case "cicc", "cudafe++":
		switch a {
		case "--gen_module_id_file": // the id is given
			return true, 0
		case "--gen_c_file_name", "--gen_device_file_name":
			if s.Tool == "cudafe++" {
				put(word{prefix: a}, l.writes(p, next, RoleHostCode))
			} else { // nobody reads it, and without the option cicc writes it into the folder it runs in
				put(word{prefix: a}, word{role: RoleScratch.Of(strings.TrimPrefix(path.Ext(next), "."))})
			}
			return true, 1
		case "--module_id_file_name":
			put(word{prefix: a}, l.reads(p, RoleModuleID))
			return true, 1
		case "--include_file_name":
			put(word{prefix: a}, word{prefix: FatbinName})
			return true, 1
		case "--orig_src_path_name", "--orig_src_file_name":
			put(word{prefix: a}, word{role: RoleSource}) // named, not read
			return true, 1
		case "--stub_file_name":
			if s.Tool == "cudafe++" {
				l.stub = path.Base(next)
				put(word{prefix: a}, word{prefix: StubName}) // for the #include in its output
				return true, 1
			}
			l.stubs[path.Base(next)] = p.Arch
			put(word{prefix: a}, l.writes(p, next, RoleStub.Of(p.Arch)))
			return true, 1
		case "-o":
			role := RolePTX.Of(p.Arch)
			if slices.Contains(s.Argv, "-lto") {
				role = RoleLTOIR.Of(p.Arch)
			}
			put(word{prefix: a}, l.writes(p, next, role))
			return true, 1
		case "-olto":
			put(word{prefix: a}, l.writes(p, next, RoleLTOIR.Of(p.Arch)))
			return true, 1
		}
	case "ptxas", "nvlink":
		if a == "-o" {
			put(word{prefix: a}, l.writes(p, next, RoleCubin.Of(p.Arch)))
			return true, 1
		}
		if file, ok := strings.CutPrefix(a, "--register-link-binaries="); ok {
			w := l.writes(p, file, RoleRegister.Of(p.Arch))
			w.prefix = "--register-link-binaries="
			put(w)
			return true, 0
		}
	case "fatbinary":
		return l.fatbinary(p, s, a, put)
	case "gcc":
		switch {
		case a == "-o" && p.Tool == "preprocess":
			put(word{prefix: a}, l.writes(p, next, RoleText.Of(next)))
			return true, 1
		case a == "-o":
			put(word{prefix: a}, l.writes(p, next, RoleOutput))
			return true, 1
		case a == "-D": // -D "X=..." of 11.8
			put(word{prefix: a + next})
			return true, 1
		}
	}
	return false, 0
}

// fatbinary writes one of two forms: the plain file is taken, and the C text where the step after reads it.
func (l *learner) fatbinary(p *Pass, s Step, a string, put func(...word)) (handled bool, skip int) {
	if file, ok := strings.CutPrefix(a, "--create="); ok {
		role := l.files[file]
		if role == "" && slices.Contains(s.Argv, "-link") {
			return true, 0 // the C text is what link.stub includes
		}
		w := l.writes(p, file, RoleFatbin)
		w.prefix = "--create="
		put(w)
		return true, 0
	}
	if file, ok := strings.CutPrefix(a, "--embedded-fatbin="); ok {
		if !slices.Contains(s.Argv, "-link") {
			l.files[file] = RoleFatbinC // included by the stub under a name of our own
			return true, 0
		}
		w := l.writes(p, file, RoleFatbinC)
		w.prefix = "--embedded-fatbin="
		put(w)
		return true, 0
	}
	return false, 0
}

// The names under which generated host code includes two other generated files.
const (
	StubName   = "kernels.stub.c"
	FatbinName = "kernels.fatbin.c"
)

// writes notes an output. The output of the whole command keeps its role.
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

// plain is an argument without an option before it: a file of an earlier step, alone or at the end of
// something like --image3=kind=elf,sm=80,file=F, or text to pass on.
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
	w := l.reads(p, role)
	w.prefix, w.suffix = a[:at], suffix
	p.argv = append(p.argv, w)
	return nil
}

// textFor gives a preprocessed text the role that its reader decides: of cicc's architecture, or the host's.
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
