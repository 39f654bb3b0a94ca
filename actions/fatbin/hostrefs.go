package fatbin

import (
	"bytes"
	"errors"
	"slices"
)

// nvcc writes what host code of an object refers to into sections of the object: names of kernels
// (K), variables (D) and constants (C), of internal (I) and of external (E) linkage, each ended by
// a zero byte. They are patterns: "_Z4used*" stands for whatever parameters and template arguments
// follow, a name without a star for itself alone (nvlink 11.8 and 13.5). nvlink removes what no
// pattern of any object fits. Its options -kernels-used and -variables-used replace these lists,
// where a name in a section adds to them.

// refSections are the lists that names of host code are added to. What a name is, a kernel or a
// variable, its reader does not know, and in the wrong list it fits nothing.
var refSections = []string{".nvHRKE", ".nvHRDE", ".nvHRCE"}

// WithHostRefs gives object as nvlink reads it, with names added to what its host code refers to.
// It must be an object that nvlink looks for names in.
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
	t := thinner{object: o, refs: names, choose: func(c container) container { return c }}
	return t.thin()
}

// ArchiveWithHostRefs is WithHostRefs for a static library: the first member that takes the names
// has them.
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

// withRefs adds names to a list. An empty list is one zero byte.
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
