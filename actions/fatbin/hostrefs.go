package fatbin

import (
	"bytes"
	"errors"
	"slices"
)

// nvcc lists what the host code of an object refers to in sections of the object. They contain
// names of kernels (K), variables (D) and constants (C), of internal (I) and of external (E)
// linkage, each ended by a zero byte. The names are patterns: "_Z4used*" matches any parameters and
// template arguments, a name without a star only itself (nvlink 11.8 and 13.5). nvlink removes what
// no pattern of any object matches. Its options -kernels-used and -variables-used replace these
// lists, whereas a name in a section adds to them.

// refSections are the lists that names of host code are added to. A caller does not know whether a
// name is a kernel or a variable; in the wrong list it matches nothing.
var refSections = []string{".nvHRKE", ".nvHRDE", ".nvHRCE"}

// WithHostRefs returns object for nvlink, with names added to what its host code refers to. It must
// be an object that nvlink searches for names.
func WithHostRefs(object []byte, names []string) ([]byte, error) {
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	for _, want := range append([]string{linkableSection}, refSections...) {
		if at, err := o.only(want); at < 0 || err != nil {
			return nil, errors.New("it has no section " + want)
		}
	}
	t := thinner{object: o, refs: names}
	return t.thin()
}

// ArchiveWithHostRefs is WithHostRefs for a static library: it adds the names to the first member
// that accepts them.
func ArchiveWithHostRefs(archive []byte, names []string) ([]byte, error) {
	members, err := splitArchive(archive)
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if content, err := WithHostRefs(m.content, names); err == nil {
			members[i].content = content
			return joinArchive(members), nil
		}
	}
	return nil, errors.New("no member of the archive takes names")
}

// withRefs appends names to a list. An empty list is one zero byte.
func withRefs(list []byte, names []string) []byte {
	if len(names) == 0 {
		return list
	}
	out := slices.Clone(bytes.TrimLeft(list, "\x00"))
	for _, n := range names {
		out = append(append(out, n...), 0)
	}
	return out
}
