package plan

import (
	"fmt"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// deviceLink plans the device link of t and returns its object. nvlink reads every relocatable
// object and archive of the program exactly once; the host link then reads the same ones.
func (b *builder) deviceLink(t *target, l linkage) string {
	cc, ok := b.nvcc(t.Pos)
	if !ok {
		return ""
	}
	linked := b.linkInputs(t, l)
	keeps := b.keepsAll(t)
	link := nvcc.DeviceLink{Codes: t.codes.sass, KeepAll: keeps != "", NVLink: t.Flags.NVLink, LTO: hasLTO(linked)}
	if !b.checkLink(t, linked, link.LTO) {
		return ""
	}
	link.NVLink = append(b.arithmetic(t, linked), link.NVLink...)
	check := &graph.Link{LTO: link.LTO, KeepsAll: keeps}
	for _, p := range linked {
		link.Inputs = append(link.Inputs, own(check, p, b.filesOf(t, p, check))...)
	}
	link.Output = b.out("obj", fileName(t), "dlink.o")
	if keeps == "" {
		check.HostRefs = b.hostRefs(t)
	}
	b.emitLink(t, cc, t.Name, link, check, nil)
	return link.Output
}

// own records p as the owner of files in a link and returns files.
func own(link *graph.Link, p linkInput, files []string) []string {
	if link.Owners == nil {
		link.Owners, link.OwnerPos = map[string]string{}, map[string]graph.Pos{}
	}
	for _, f := range files {
		link.Owners[f], link.OwnerPos[f] = p.t.label, graph.Pos(p.t.Pos)
	}
	return files
}

// scrambled returns the members of a prebuilt whose LTO-IR does not record its version of NVVM IR.
// That version decides whether nvlink can read it.
func (g *given) scrambled(t *target) []Member {
	return slices.DeleteFunc(g.linkedMembers(t), func(m Member) bool { return !holds(m, gencode.LTO) || m.Versions[gencode.LTO][2] > 0 })
}

// filesOf returns the files of p that the device link of t reads. These are t's own relocatable
// objects, or the archive of a library, of which nvlink loads every member.
func (g *given) filesOf(t *target, p linkInput, check *graph.Link) []string {
	if p.t.Kind == manifest.Prebuilt {
		if p.t.LTO == "none" {
			check.NonLTO = append(check.NonLTO, p.t.linked())
		}
		if g.untold(p.t) {
			check.Untold = append(check.Untold, fmt.Sprintf("%s of %s (%s)", p.t.file, p.t.label, graph.Pos(p.t.Pos)))
		}
		if members := g.scrambled(p.t); check.LTO && len(members) > 0 {
			check.Foreign = append(check.Foreign, fmt.Sprintf("%s of %s (%s)", memberNames(p.t, members), p.t.label, graph.Pos(p.t.Pos)))
		}
		return []string{p.t.linked()}
	}
	archive := ""
	if p.t != t {
		archive = p.t.file
	}
	var objs []string
	for _, o := range p.t.objects {
		if !relocatable(o.source) {
			continue
		}
		objs = append(objs, o.path)
		if o.source.Mode == "rdc" {
			name := o.path
			if archive != "" {
				name = archive + ":" + path.Base(o.path)
			}
			check.NonLTO = append(check.NonLTO, name)
		}
	}
	if archive != "" {
		return []string{archive}
	}
	return objs
}
