package manifest

import (
	"cmp"
	"slices"
)

// defines = { NAME = value }: null becomes -DNAME, a boolean 1 or 0 as in C.

func (r *reader) defines() []Define {
	f := r.field("defines")
	m := r.textMap("defines")
	var out []Define
	for _, name := range sortedKeys(m) {
		if !cIdentifier(name) {
			r.l.errorAt(r.keyRange(f, name), "Write defines = { NAME = value }; null gives -DNAME.", "%q is no name of a macro", name)
			continue
		}
		v := m[name]
		if v != nil && (*v == "true" || *v == "false") && f.val.AsValueMap()[name].Type().FriendlyName() == "bool" {
			digit := map[string]string{"true": "1", "false": "0"}[*v]
			v = &digit
		}
		out = append(out, Define{name, v})
	}
	return out
}

// mergeDefines overrides base with more. The result is sorted by name.
func mergeDefines(base, more []Define) []Define {
	if len(more) == 0 {
		return base
	}
	out := slices.DeleteFunc(slices.Clone(base), func(d Define) bool {
		return slices.ContainsFunc(more, func(m Define) bool { return m.Name == d.Name })
	})
	out = append(out, more...)
	slices.SortFunc(out, func(a, b Define) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
