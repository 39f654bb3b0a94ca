package manifest

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// A partition selects among the sources of its target and changes how they are compiled.

func (r *reader) partition(b *block) partitionValues {
	p := r.l.reader(b, r.extra)
	v := partitionValues{standards: p.standards(), Source: Source{
		Partition: b.name, Language: p.enum("language"), Mode: p.enum("mode"), Opt: p.enum("opt"), Defines: p.defines(), Flags: p.flags(),
		Includes: p.paths("includes"), Memory: p.size("memory"), AttrPos: map[string]Pos{},
	}}
	for _, a := range b.attrs() {
		v.AttrPos[a.Name] = position(a.NameRange)
	}
	v.Code = r.l.narrowArch(p.codes("code"))
	if a := b.body.Attributes["code"]; a != nil && r.b.kind != "module" {
		v.code = a.NameRange
	} else if a != nil {
		r.l.errorAt(a.NameRange, "Make a module of its own for these sources.", "the files of a module are for one list of code")
		v.Code = nil
	}
	return v
}

// values returns the settings of the target for all its sources.
func (r *reader) values(t *Target) partitionValues {
	return partitionValues{standards: r.standards(), Source: Source{
		Language: r.enum("language"), Mode: t.Mode, Opt: t.Opt, Defines: r.defines(), Flags: &t.Flags, Memory: t.Memory,
	}}
}

// over applies a partition to the settings of its target: defines are merged, flags appended, all
// others replaced.
func (p partitionValues) over(target partitionValues) partitionValues {
	s := target
	s.standards = p.standards.over(target.standards)
	s.Partition, s.Includes, s.AttrPos, s.Code, s.code = p.Partition, p.Includes, p.AttrPos, p.Code, p.code
	s.Defines = mergeDefines(target.Defines, p.Defines)
	s.Flags = target.Flags.with(p.Flags)
	if p.Mode != "" {
		s.Mode = p.Mode
	}
	if p.Memory != 0 {
		s.Memory = p.Memory
	}
	if p.Language != "" {
		s.Language = p.Language
	}
	if p.Opt != "" {
		s.Opt = p.Opt
	}
	return s
}

// partitionValues are the settings of a partition, as a Source without a path. code is the range of
// its code attribute, rng that of the pattern that selected the source.
type partitionValues struct {
	Source
	standards standardsOf
	code, rng hcl.Range
}

// partitions returns the partition of each source that has one.
func (r *reader) partitions(sources []item) map[string]partitionValues {
	out := map[string]partitionValues{}
	for _, b := range r.b.nested {
		if b.kind != "partition" {
			continue
		}
		values := r.partition(b)
		p := r.l.reader(b, r.extra)
		p.required()
		if r.field("sources") == nil {
			continue // there is no source to select; the error was reported
		}
		for _, m := range p.texts("match") {
			r.selectSources(out, sources, m, values.selectedAt(m.rng))
		}
	}
	return out
}

func (r *reader) selectSources(out map[string]partitionValues, sources []item, m item, values partitionValues) {
	pattern, found := r.sourcePath(m.text), false
	if _, err := path.Match(pattern, ""); err != nil {
		r.l.errorAt(m.rng, "", "match: a bracket is not closed in %q", m.text)
		return
	}
	for _, s := range sources {
		if s.text != pattern && !matchPath(pattern, s.text) {
			continue
		}
		found = true
		other, taken := out[s.text]
		if taken && other.Partition != values.Partition {
			r.l.bothAt(m.rng, other.rng, "selected here for "+other.Partition, "A source belongs to one partition.",
				"%s is in the partitions %s and %s", s.text, other.Partition, values.Partition)
			continue
		}
		out[s.text] = values
	}
	if !found {
		r.l.errorAt(m.rng, matchHelp(sources), "%q matches no source of %s", m.text, r.b.heading())
	}
}

// selectedAt returns a copy with the range of the pattern that selects a source.
func (p partitionValues) selectedAt(rng hcl.Range) partitionValues {
	p.rng = rng
	return p
}

func matchHelp(sources []item) string {
	names := plainTexts(sources)
	if len(names) > 6 {
		names = append(names[:6], "...")
	}
	return "Its sources are " + strings.Join(names, ", ") + "."
}
