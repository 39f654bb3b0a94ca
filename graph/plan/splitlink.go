package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// A device link is taken apart by architecture:
//
//	a.cu.o -> slice [80] -> nvlink [80] --\
//	a.cu.o -> slice [90] -> nvlink [90] ---> fatbinary -> host-part -> dlink.o
//
// A slice is what nvlink for one architecture reads of an object: a change of host code or of another architecture
// leaves it as it is, and the link is not run. What plain host code refers to comes from host-refs (hostrefs.go).

// emitLink plans a device link, taken apart if possible. link is what whole.Argv was made of; shared knows the other links of a module.
func (b *builder) emitLink(t *target, whole *graph.Action, cc nvcc.Driver, link nvcc.DeviceLink, o nvcc.Options, shared *sharing) {
	driver := &graph.Driver{UnsplitReason: b.unsplit(t)}
	whole.Work.Driver = driver
	linked := whole.Inputs
	if refs := whole.Link().HostRefs; refs != "" {
		whole.Inputs = append(slices.Clip(linked), refs)
	}
	if driver.UnsplitReason == "" {
		link.Inputs = []string{compiler.AskInput}
		question := Question{"nvcc", nvcc.Ask(cc.DeviceLink(link, o), "", link.Output, "")}
		driver.DryRunKey = question.Key()
		passes, err := learn(b, &b.links, question, nvcc.LearnLink)
		if err == nil {
			err = b.splitLink(t, whole, linked, passes, shared)
		}
		if err == nil {
			b.nvccWarns(t, passes.Said)
			return
		}
		driver.UnsplitReason = err.Error()
	}
	b.emit(t, whole)
}

func (b *builder) splitLink(t *target, whole *graph.Action, linked []string, c *nvcc.LinkPasses, shared *sharing) error {
	codes := map[string]gencode.Code{}
	for _, pass := range c.NVLink {
		code, err := gencode.Parse(pass.Arch)
		if err != nil {
			return fmt.Errorf("nvlink for %s: %w", pass.Arch, err)
		}
		codes[pass.Arch] = code
	}
	p := b.newSplit(t, whole, c.Env)
	p.shared = shared
	part := shared != nil && path.Ext(p.out) == ".cubin"
	if part {
		p.out = p.dir + "/" + c.NVLink[0].Arch + ".cubin"
	}
	for _, pass := range c.NVLink {
		p.nvlink(pass, linked, codes[pass.Arch])
	}
	if part {
		p.copy(p.file(nvcc.RoleOutput), whole.Outputs[0])
	}
	if c.Fatbinary != nil {
		a := p.action(graph.Fatbinary, c.Fatbinary, p.program("fatbinary"))
		a.Transient = a.Intermediate
		p.emit(a)
	}
	if c.Host != nil {
		p.linkStub(c.Host)
	}
	return nil
}

// nvlink plans the link of one architecture.
func (p *split) nvlink(pass *nvcc.Pass, linked []string, code gencode.Code) {
	a := p.action(graph.NVLink, pass, p.program("nvlink"))
	for _, in := range linked {
		a.Inputs = append(a.Inputs, p.slice(in, code))
	}
	at := slices.Index(a.Argv, nvcc.Inputs)
	a.Argv = slices.Replace(a.Argv, at, at+1, a.Inputs...)
	// nvcc wants messages to name the architecture where it links several.
	a.Argv = slices.DeleteFunc(a.Argv, func(arg string) bool { return arg == "-report-arch" })
	a.Archs, a.Work.Step.EmptyCwd = []string{pass.Arch}, true
	a.Work.Link, a.Work.Response = p.whole.Work.Link, optionsFile
	if refs := a.Link().HostRefs; refs != "" {
		a.Inputs = append(a.Inputs, refs)
	}
	askFigures(a)
	p.once(a)
}

// askFigures has ptxas, or the one in nvlink, say what each function takes: the bytes that it makes are the same (11.8, 12.4), but for
// .note.nv.tkinfo, where 13.0 and newer note all their options.
// nvlink takes the last -Xptxas of several, with a warning.
func askFigures(a *graph.Action) {
	isVerbose := func(arg string) bool { return arg == "-v" || arg == "--verbose" }
	if a.Kind == graph.PTXAS {
		if !slices.ContainsFunc(a.Argv, isVerbose) {
			a.Argv, a.Work.Step.ResourceUsage = slices.Insert(a.Argv, 1, "-v"), true
		}
		return
	}
	if !slices.Contains(a.Argv, "-dlto") {
		return
	}
	at := -1
	for i, arg := range a.Argv {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "Xptxas") {
			at = i
		}
	}
	switch {
	case at < 0:
		a.Argv, a.Work.Step.ResourceUsage = slices.Insert(a.Argv, 1, "-Xptxas", "-v"), true
	case a.Argv[at] == "-Xptxas" && at+1 < len(a.Argv) && !slices.ContainsFunc(strings.Fields(a.Argv[at+1]), isVerbose):
		a.Argv[at+1] = strings.TrimSpace(a.Argv[at+1]) + " -v"
		a.Work.Step.ResourceUsage = true
	}
}

// slice is what a link for code reads of a file: of one that is built here, its own slice.
func (p *split) slice(in string, code gencode.Code) string {
	if _, ours := p.b.graph.Producer(in); !ours {
		return in
	}
	out := p.b.out(graph.SlicesDir, code.String(), p.b.inTree(in))
	if p.b.slices == nil {
		p.b.slices = map[string]bool{}
	}
	if !p.b.slices[out] {
		p.b.slices[out] = true
		p.emit(&graph.Action{Kind: graph.Slice, Name: strings.TrimPrefix(in, p.b.project.BuildDir+"/"), Archs: []string{code.String()},
			Mode: p.whole.Mode, Inputs: []string{in}, Outputs: []string{out}, Intermediate: true, Transient: true})
	}
	return out
}

// linkStub plans the compile of the toolkit's link.stub, which registers all linked modules.
func (p *split) linkStub(pass *nvcc.Pass) {
	a := p.action(graph.HostPart, pass, p.b.facts.CUDA.HostCXX.Path)
	a.Name, a.Archs = p.whole.Name, p.whole.Archs
	depends(a)
	a.Work.Step.Macros = []string{nvcc.ListMacro}
	p.emit(a)
}
