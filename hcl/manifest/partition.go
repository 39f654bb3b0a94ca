package manifest

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// A partition selects among the sources of its target and changes how they are compiled. It is read
// as a Source without a path.

// partition reads the values of a block; nil reads what the target says for all its sources.
func (r *reader) partition(b *block) Source {
	p := r
	var s Source
	if b != nil {
		p = r.l.reader(b, r.extra)
		s.Partition = b.name
		s.Mode = p.enum("mode")
		s.Defines, s.Flags, s.Memory = p.defines(), p.flags(), p.size("memory")
	}
	s.Language = p.enum("language")
	return s
}

// over puts a partition on the values of its target: defines are merged, flags appended, the rest
// replaces.
func (p partitionValues) over(target Source) Source {
	s := target
	s.Partition = p.Partition
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
	return s
}

// partitionValues are a partition and the place of the pattern that selected a source for it.
type partitionValues struct {
	Source
	rng hcl.Range
}

// partitions gives the partition of each source that is in one.
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
			continue // nothing to select among; that was reported
		}
		for _, m := range p.texts("match") {
			r.selectSources(out, sources, m, partitionValues{values, m.rng})
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

func matchHelp(sources []item) string {
	names := plainTexts(sources)
	if len(names) > 6 {
		names = append(names[:6], "...")
	}
	return "Its sources are " + strings.Join(names, ", ") + "."
}
