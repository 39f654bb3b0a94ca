package install

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Statements about a library's device code come from its file, not from the manifest.

// contents describes the device code of a library.
type contents struct {
	// open is relocatable code and final is final code, each sorted without duplicates: "lto_80",
	// "sm_80".
	open, final []string
	members     [][]gencode.Image
}

// readCode reads the device code of the libraries whose code is not found yet.
func (k *Package) readCode() error {
	for _, e := range k.libraries() {
		if _, ok := k.found[e.Label]; ok || e.HeaderOnly {
			continue
		}
		f, err := fatbin.ReadFile(cache.Absolute(k.root, e.File))
		if err != nil {
			return fmt.Errorf("looking for the device code of %s: %w", e.Label, err)
		}
		var c contents
		var open, final []gencode.Code
		for _, m := range f.Members {
			var images []gencode.Image
			for _, i := range m.Images {
				images = append(images, i.Image)
				if m.Relocatable {
					open = append(open, i.Code())
				} else {
					final = append(final, i.Code())
				}
			}
			if m.Relocatable {
				c.members = append(c.members, images)
			}
		}
		c.open, c.final = spelled(open), spelled(final)
		k.found[e.Label] = c
	}
	return nil
}

func spelled(codes []gencode.Code) (names []string) {
	slices.SortFunc(codes, gencode.Compare)
	for _, c := range slices.Compact(codes) {
		names = append(names, c.String())
	}
	return names
}

// String returns the codes for people to read.
func (c contents) String() string {
	switch {
	case len(c.open) > 0 && len(c.final) > 0:
		return strings.Join(c.final, " ") + ", and relocatable " + strings.Join(c.open, " ")
	case len(c.open) > 0:
		return "relocatable " + strings.Join(c.open, " ")
	case len(c.final) > 0:
		return strings.Join(c.final, " ")
	}
	return "none"
}

// all returns the final and relocatable codes, each once.
func (c contents) all() (codes []string) {
	for _, code := range slices.Concat(c.final, c.open) {
		if !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// links returns the known architectures for which every object of the library has code that a
// device link can use. nvlink skips an object without such code, with a warning at most.
func (c contents) links(known []gencode.Code) (archs []gencode.Code) {
	for _, target := range known {
		lacks := func(images []gencode.Image) bool {
			return !slices.ContainsFunc(images, func(i gencode.Image) bool { return gencode.LinksInto(i, target, true) })
		}
		if !slices.ContainsFunc(c.members, lacks) {
			archs = append(archs, target)
		}
	}
	return archs
}

// numbers returns architectures as CMake spells them: "80", "90a".
func numbers(codes []gencode.Code) (list []string) {
	for _, c := range codes {
		list = append(list, fmt.Sprintf("%d%s", c.Num, c.Suffix))
	}
	return list
}
