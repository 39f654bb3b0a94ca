package manifest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
)

// The parts of a manifest for kbuild install: the name of the package, its headers, the versions of
// shared libraries.

// packageVersion matches the versions that CMake can compare.
var packageVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$`) })

// decodePackage reads package { name, version, description }, which other build tools find it by.
func (l *loader) decodePackage() {
	b := l.named["package"]
	if b == nil {
		return
	}
	r := l.reader(b, nil)
	r.required()
	p := &Package{Pos: position(b.rng)}
	var ok bool
	if p.Name, ok = r.text("name"); ok && !targetName().MatchString(p.Name) {
		l.errorAt(r.find("name").Expr.Range(), "Letters, digits and _ . + - may be used: it becomes the name of files.", "%q is no name for a package", p.Name)
	}
	if p.Version, ok = r.text("version"); ok && !packageVersion().MatchString(p.Version) {
		l.errorAt(r.find("version").Expr.Range(), `Write up to four numbers, as in "1.4.0": CMake compares them.`, "%q is no version of a package", p.Version)
	}
	if p.Description, _ = r.text("description"); strings.ContainsAny(p.Description, "\r\n") {
		l.errorAt(r.find("description").Expr.Range(), "", "the description of a package is one line")
	}
	l.project.Package = p
}

// soVersionRE matches the part of a file name after lib*.so.
var soVersionRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9][0-9A-Za-z]*(\.[0-9A-Za-z]+)*$`) })

// soversion reads the version of a shared library's ABI.
func (r *reader) soversion(shared bool) string {
	s, ok := r.text("soversion")
	if !ok {
		return ""
	}
	switch rng := r.find("soversion").Expr.Range(); {
	case !soVersionRE().MatchString(s):
		r.l.errorAt(rng, `Write for example "1", for libNAME.so.1.`, "%q is no version of a shared library", s)
	case !shared:
		r.l.errorAt(r.find("soversion").NameRange, `Remove it, or add type = "shared".`, "soversion is for a shared library; this one is static")
	}
	return s
}

// publicHeaders reads the headers to install with t. It reports two that would become one file.
func (r *reader) publicHeaders(t *Target) (list []Header) {
	first := map[string]item{}
	for _, it := range r.texts("public_headers") {
		h := Header{Path: r.sourcePath(it.text), Pos: position(it.rng)}
		switch h.Generated = r.l.generated[h.Path]; {
		case h.Path == "":
			r.l.errorAt(it.rng, "", "public_headers has an empty element")
			continue
		case h.Generated == "" && r.l.isFolder(h.Path):
			r.l.errorAt(it.rng, "Write glob(\""+h.Path+"/**/*.h\") for the files in it.", "%s is a folder", h.Path)
			continue
		case h.Generated == "" && !r.l.mustExist(h.Path, it.rng):
			continue
		case h.Generated != "" && !slices.ContainsFunc(t.Deps, func(d Dep) bool { return d.Label == h.Generated }):
			r.l.errorAt(it.rng, "Add "+h.Generated+" to deps.", "%s makes %s, and is not among the deps of %s", h.Generated, h.Path, r.b.heading())
			continue
		}
		h.As = r.installedAs(h, t.Includes)
		if f, twice := first[h.As]; twice {
			r.l.bothAt(it.rng, f.rng, "first here", "Both would be installed as include/"+h.As+".", "%s and %s have one place among the public headers of %s", it.text, f.text, r.b.heading())
			continue
		}
		first[h.As] = it
		list = append(list, h)
	}
	return list
}

// installedAs returns the path of a header relative to its include folder: that of its generate
// block, or the longest match of includes. A header outside of all of them is included from its own
// folder, so only its base name remains.
func (r *reader) installedAs(h Header, includes []string) string {
	if _, name, ok := strings.Cut(h.Generated, "."); ok {
		return strings.TrimPrefix(h.Path, r.l.buildPath("gen", graph.Flat(name))+"/")
	}
	as, longest := path.Base(h.Path), -1
	for _, dir := range includes {
		if dir = r.rooted(dir); dir == "." && !path.IsAbs(h.Path) && !strings.HasPrefix(h.Path, "../") && longest < 0 {
			as, longest = h.Path, 0
		} else if rest, ok := strings.CutPrefix(h.Path, dir+"/"); ok && len(dir) > longest {
			as, longest = rest, len(dir)
		}
	}
	return as
}
