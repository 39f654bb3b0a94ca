package nvcc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Role is the purpose of a file in the passes of one compile or link. Roles of an architecture
// carry it after a colon: "ptx:compute_80", "cubin:sm_80".
type Role string

// The roles of files.
const (
	RoleSource    Role = "source"    // the .cu file
	RoleNamed     Role = "named"     // the .cu file in a pass that does not read it
	RoleOutput    Role = "output"    // the output of the unsplit nvcc command
	RoleText      Role = "text"      // preprocessed: "text:compute_80", "text:host"
	RolePTX       Role = "ptx"       // "ptx:compute_80"
	RoleUnchecked Role = "unchecked" // "unchecked:compute_90": PTX before its check
	RoleLTOIR     Role = "ltoir"     // "ltoir:compute_80"
	RoleStub      Role = "stub"      // "stub:compute_80": launches and registers kernels
	RoleCubin     Role = "cubin"     // "cubin:sm_80"
	RoleFatbin    Role = "fatbin"    // device code of all architectures
	RoleFatbinC   Role = "fatbin.c"  // RoleFatbin as C text
	RoleHostCode  Role = "cudafe"    // cudafe1.cpp: the source with its device code taken out
	RoleModuleID  Role = "module_id" // a name for the source that is unique in a program
	RoleRegister  Role = "reg.c"     // "reg.c:sm_80": nvlink's list of linked modules
	// "tilebc:compute_100": cicc's output for tile functions (13.3 and newer).
	RoleTileIR    Role = "tilebc"
	RoleTileCubin Role = "tile.cubin"
	RoleTileC     Role = "tile.fatbin.c" // all tile code as C text: a second fatbin
	RoleScratch   Role = "scratch"       // "scratch:gpu": written and never read
	RoleLinkInput Role = "inputs"        // represents all inputs of a device link
)

// Of returns the role for an architecture.
func (r Role) Of(arch string) Role { return r + ":" + Role(arch) }

// Pass is one command of nvcc with roles in place of its files.
type Pass struct {
	Tool string

	// "compute_80" for preprocess and cicc, "sm_80" for ptxas and nvlink; "host"; "" if none.
	Arch string
	step int // position in the dry run
	argv []word
	In   []Role // in the order of the command line
	Out  []Role
}

// word is an argument that may contain a role: prefix, file, suffix. Without a role it is the
// prefix alone.
type word struct {
	prefix string
	role   Role
	suffix string
}

// Argv returns the command with its program and the file of each role.
func (p *Pass) Argv(program string, file func(Role) string) []string {
	out := []string{program}
	for _, w := range p.argv {
		if w.role == "" {
			out = append(out, w.prefix)
		} else {
			name := file(w.role)
			if strings.HasPrefix(w.prefix, "--image3=") {
				name = toolchain.ListWord(name)
			}
			out = append(out, w.prefix+name+w.suffix)
		}
	}
	return out
}

// Inputs is the placeholder for all inputs in the argv of an nvlink pass.
const Inputs = "<inputs>"

// ListMacro is the macro that lists all architectures of a compile in each of its passes.
const ListMacro = "__CUDA_ARCH_LIST__"

// CompilePasses holds the passes of one `nvcc -c`, `-dc`, `-ptx`, `-cubin` or `-fatbin`.
type CompilePasses struct {
	DryRun
	Preprocess map[string]*Pass // by "compute_80" and "host"; each writes one RoleText
	CICC       []*Pass          // one for each virtual architecture

	// Ptxas without output: its exit status decides whether the PTX is used (13.0 and newer, from
	// compute_90 on).
	Checks   []*Pass
	PTXAS    []*Pass
	TileIRAS []*Pass // compile tile code

	// Nil if the output is PTX or a cubin, or has only tile code; writes RoleFatbin or RoleOutput,
	// or RoleFatbinC beside tile code.
	Fatbinary  *Pass
	TileFatbin *Pass  // writes RoleTileC; nil without tile code
	Cudafe     *Pass  // nil if the output is no object
	Host       *Pass  // g++ -c of RoleHostCode, nil if the output is no object
	Primary    string // the architecture whose stub the host code includes

	texts []*Pass
}

// LinkPasses holds the passes of one `nvcc -dlink`.
type LinkPasses struct {
	DryRun
	NVLink    []*Pass
	Fatbinary *Pass // nil if the output is a cubin or PTX
	Host      *Pass // g++ -c of the toolkit's link.stub; nil if the output is no object
}

// LearnCompile parses the dry run of a compile into its passes.
func LearnCompile(text string) (*CompilePasses, error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	l := &learner{files: map[string]Role{QuerySource: RoleSource, toolchain.AskOutput: RoleOutput}, stubs: map[string]string{}}
	c := &CompilePasses{DryRun: d, Preprocess: map[string]*Pass{}}
	for i, s := range d.Steps {
		p, err := l.step(s)
		if err != nil {
			return nil, err
		}
		p.step = i
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

// place stores a pass by its tool.
func (c *CompilePasses) place(p *Pass) error {
	twice := false
	switch p.Tool {
	case "preprocess":
		c.texts = append(c.texts, p) // the pass that reads it determines its architecture
	case "cicc":
		c.CICC = append(c.CICC, p)
	case "ptxas":
		if len(p.Out) == 0 {
			return c.check(p)
		}
		c.PTXAS = append(c.PTXAS, p)
	case "tileiras":
		c.TileIRAS = append(c.TileIRAS, p)
	case "fatbinary":
		if slices.Contains(p.Out, RoleTileC) {
			twice, c.TileFatbin = c.TileFatbin != nil, p
			break
		}
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

// check inserts a pass that checks PTX and writes nothing between cicc and the readers of the PTX.
// The pass gets the checked PTX as its output.
func (c *CompilePasses) check(p *Pass) error {
	i := slices.IndexFunc(c.CICC, func(cicc *Pass) bool { return cicc.Arch == p.Arch })
	if i < 0 || len(p.In) != 1 || !slices.Contains(c.CICC[i].Out, p.In[0]) {
		return fmt.Errorf("ptxas for %s writes nothing and checks no PTX", p.Arch)
	}
	ptx, unchecked := p.In[0], RoleUnchecked.Of(p.Arch)
	c.CICC[i].rename(ptx, unchecked)
	p.rename(ptx, unchecked)
	p.Out = []Role{ptx}
	c.Checks = append(c.Checks, p)
	return nil
}

// rename changes the role of a file of p.
func (p *Pass) rename(from, to Role) {
	for i := range p.argv {
		if p.argv[i].role == from {
			p.argv[i].role = to
		}
	}
	for _, list := range [2][]Role{p.In, p.Out} {
		for i := range list {
			if list[i] == from {
				list[i] = to
			}
		}
	}
}

// complete checks that every file that a pass reads is written by another.
func (c *CompilePasses) complete() error {
	all := slices.Concat(c.CICC, c.Checks, c.PTXAS, c.TileIRAS)
	for _, p := range c.texts {
		if p.Arch == "" {
			return fmt.Errorf("no step reads what a preprocessor writes")
		}
		c.Preprocess[p.Arch] = p
		all = append(all, p)
	}
	for _, p := range []*Pass{c.Fatbinary, c.TileFatbin, c.Cudafe, c.Host} {
		if p != nil {
			all = append(all, p)
		}
	}
	if c.Host == nil {
		for _, p := range c.CICC {
			p.drop(1, RoleStub, RoleScratch)
		}
	}
	if err := complete(all, RoleSource, RoleModuleID); err != nil {
		return err
	}
	if (c.Cudafe == nil) != (c.Host == nil) {
		return fmt.Errorf("a compile runs only one of cudafe++ and a host compiler")
	}
	if c.Host != nil && c.Fatbinary == nil && c.TileFatbin == nil || len(c.CICC) == 0 {
		return fmt.Errorf("a compile makes no device code")
	}
	slices.SortFunc(c.CICC, func(a, b *Pass) int { return strings.Compare(a.Arch, b.Arch) })
	for _, p := range c.CICC {
		if !slices.Contains(p.In, RoleText.Of(p.Arch)) {
			return fmt.Errorf("cicc for %s reads the text of another architecture", p.Arch)
		}
	}
	return nil
}

// drop removes files that no pass reads, and the options words before each.
func (p *Pass) drop(options int, kinds ...Role) {
	for i := options; i < len(p.argv); i++ {
		if slices.Contains(kinds, p.argv[i].role.kind()) {
			p.argv = slices.Delete(p.argv, i-options, i+1)
			i -= options + 1
		}
	}
	p.Out = slices.DeleteFunc(p.Out, func(r Role) bool { return slices.Contains(kinds, r.kind()) })
}

// complete checks that every pass writes something, and that each file has exactly one writer. The
// roles given have none.
func complete(all []*Pass, given ...Role) error {
	made := map[Role]bool{}
	for _, p := range all {
		if len(p.Out) == 0 {
			return fmt.Errorf("%s writes nothing that is known", p.Tool)
		}
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

// LearnLink parses the dry run of a device link into its passes.
func LearnLink(text string) (*LinkPasses, error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	l := &learner{files: map[string]Role{toolchain.QueryInput: RoleLinkInput, toolchain.AskOutput: RoleOutput}}
	c := &LinkPasses{DryRun: d}
	var all []*Pass
	for i, s := range d.Steps {
		p, err := l.step(s)
		if err != nil {
			return nil, err
		}
		p.step = i
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
	if c.Host == nil { // for -ptx nvcc requests it, but nvlink does not write it
		for _, p := range c.NVLink {
			p.drop(0, RoleRegister)
		}
	}
	return c, complete(all, RoleLinkInput)
}
