package manifest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// byEnding maps file extensions to languages. A .cu file is HIP if its target ships gfx code.
var byEnding = map[string]string{
	".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".C": "c++", ".cu": "cuda", ".hip": "hip",
	".s": "asm", ".S": "asm",
}

// LanguageOf returns the language of a source by its file extension; "" if the extension is
// unknown.
func LanguageOf(file string) string { return byEnding[path.Ext(file)] }

var headers = []string{".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inl", ".inc", ".ipp", ".tpp"}

// sources reads the sources of t and applies its partitions.
func (r *reader) sources(t *Target) []Source {
	items := r.texts("sources")
	if r.b.body.Attributes["sources"] == nil && !r.b.misspelt["sources"] {
		r.l.errorAt(r.b.rng, `Write for example sources = glob("src/*.cu").`, "%s has no sources", r.b.heading())
	} else if f := r.field("sources"); f != nil && isEmpty(f.val) {
		help := `Write for example sources = glob("src/*.cu").`
		if r.b.kind == "library" {
			help = `Write for example sources = glob("src/*.cu"), or sources = [] for a library of headers.`
		}
		r.l.errorAt(f.rng, help, "%s has no sources", r.b.heading())
	}
	if r.l.sources += len(items); r.l.sources > maxSources {
		if r.l.sources-len(items) <= maxSources {
			r.l.errorAt(r.b.rng, "A source counts once for each target and each instance of a module.", "the targets of this manifest have more than %d sources", maxSources)
		}
		return nil
	}
	for i := range items {
		items[i].text = r.sourcePath(items[i].text)
	}
	items = r.distinct(items)
	parts := r.partitions(items)
	target := r.values(t)
	hip := slices.ContainsFunc(t.Gencode.Code, isGFX)
	// By name of the partition: 100,000 sources share them.
	values := map[string]partitionValues{"": target}
	out := make([]Source, 0, len(items))
	for _, it := range items {
		p := parts[it.text]
		v, ok := values[p.Partition]
		if !ok {
			v = p.over(target)
			values[p.Partition] = v
		}
		s := v.Source
		s.Path, s.Pos, s.Generated = it.text, position(it.rng), r.l.generated[it.text]
		if r.checkSource(&s, it.rng, hip) {
			s.Std = v.standards.of(s.Language)
			r.checkCode(&s, v.code, hip)
			out = append(out, s)
		}
	}
	return out
}

// sourcePath returns a path as Project spells it: relative if it is inside the project.
func (r *reader) sourcePath(s string) string {
	if s == "" {
		return s
	}
	return r.rooted(inFolder(r.b.dir, cleanPath(s)))
}

// rooted returns a path as Project spells it. p is absolute or relative to the root.
func (r *reader) rooted(p string) string {
	if filepath.IsAbs(p) {
		if rel, err := filepath.Rel(r.l.project.Root, p); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return p
}

// distinct drops and reports a source that is listed twice: its object would be linked twice.
func (r *reader) distinct(items []item) []item {
	first := map[string]item{}
	var out []item
	for _, it := range items {
		if f, ok := first[it.text]; ok {
			r.l.bothAt(it.rng, f.rng, "first here", "Wrap lists that overlap in distinct().", "%s is twice among the sources of %s", it.text, r.b.heading())
			continue
		}
		first[it.text] = it
		out = append(out, it)
	}
	return out
}

// checkSource sets the language of s and checks that its file exists.
func (r *reader) checkSource(s *Source, rng hcl.Range, hip bool) bool {
	ending := path.Ext(s.Path)
	switch {
	case s.Path == "":
		r.l.errorAt(rng, "", "sources has an empty element")
		return false
	case strings.HasPrefix(s.Path, "-"):
		r.l.errorAt(rng, "Rename it, or move it into a folder.", "compilers take %s for an option", s.Path)
		return false
	case strings.ContainsFunc(s.Path, unicode.IsControl):
		r.l.errorAt(rng, "Rename it.", "compilers cannot tell of a file with the name %q: it holds a control character", s.Path)
		return false
	case r.l.isFolder(s.Path):
		r.l.errorAt(rng, fmt.Sprintf("Write glob(%q) for the files in it.", s.Path+"/*.cu"), "%s is a folder", s.Path)
		return false
	case s.Language != "":
	case slices.Contains(headers, ending):
		r.l.errorAt(rng, "Drop it from sources: compilers find headers through includes, and kbuild learns which were read.", "%s is a header", s.Path)
		return false
	case byEnding[ending] == "":
		r.l.errorAt(rng, endingHelp(ending), "cannot tell the language of %s", s.Path)
		return false
	default:
		s.Language = byEnding[ending]
	}
	if hip && s.Language == "cuda" {
		s.Language = "hip"
	}
	if s.Language != "cuda" && s.Language != "hip" {
		s.Mode = ""
	}
	return s.Generated != "" || r.l.mustExist(s.Path, rng)
}

// checkCode reports code of a partition that a device link does not allow: nvlink silently omits
// code that one object lacks.
func (r *reader) checkCode(s *Source, at hcl.Range, hip bool) {
	if s.Code != nil && isGFX(s.Code[0]) != hip {
		r.l.errorAt(at, "Make two targets, one for each vendor.", "%s is compiled for %s, and its target ships code of another vendor", s.Path, s.Code[0])
	}
	if s.Code != nil && s.Mode != "whole" && s.Mode != "" {
		r.l.errorAt(at, `Put these sources into a library of their own, or set mode = "whole" here.`,
			"%s has mode %q, and a device link needs the same code of all its sources", s.Path, s.Mode)
	}
}

func endingHelp(ending string) string {
	switch ending {
	case ".a", ".so", ".lib":
		return "Declare it as a prebuilt and name that in deps."
	case ".o", ".obj":
		return "Put it into an archive, declare that as a prebuilt and name it in deps."
	case ".ptx", ".cubin", ".fatbin":
		return "Device code is loaded at run time or embedded by a module; it is no source."
	}
	return fmt.Sprintf("Known endings: .c, .cc, .cpp, .cxx, .cu, .hip, .s, .S; for others set language to one of %s.", strings.Join(attrLanguage.Words, ", "))
}

func (l *loader) isFolder(p string) bool {
	if l.generated[p] != "" {
		return false // its command has not run yet: an existing path may be from an earlier build
	}
	st, err := l.stat(p)
	return err == nil && st.IsDir()
}

// mustExist checks that a source file exists. A file in the build tree does not count: it is from
// an earlier build, or an output without a declared dependency.
func (l *loader) mustExist(p string, rng hcl.Range) bool {
	info, err := l.stat(p)
	switch {
	case err == nil && !info.IsDir() && regular.Kind(info.Mode()) != "" && p != os.DevNull:
		l.errorAt(rng, "Whoever reads it may wait for ever.", "%s is %s, not a file", p, regular.Kind(info.Mode()))
	case l.inBuildTree(p):
		l.errorAt(rng, "Declare it among the outputs of a generate block.", "%s is in the build tree, and no generate block makes it", p)
	case err == nil:
		return true
	case l.outputNames()[p] != "":
		l.errorAt(rng, "Write "+l.outputNames()[p]+".outputs: generated files are in the build tree.", "there is no file %s", p)
	case strings.ContainsAny(p, "*?["):
		l.errorAt(rng, fmt.Sprintf("Write glob(%q).", p), "there is no file %s", p)
	case l.decomposed(p) != "":
		l.errorAt(rng, "Rename it to "+p+": texts in manifests are composed (NFC).",
			"the name of %s is decomposed on disk (NFD, letter and accent apart): %+q", p, l.decomposed(p))
	default:
		l.errorAt(rng, "", "there is no file %s%s", p, l.fileMeant(p))
	}
	return false
}

// decomposed returns the path of a file whose name equals p after Unicode normalization; "" if
// there is none. HCL normalizes all texts, so the manifest cannot name that file.
func (l *loader) decomposed(p string) string {
	if !filepath.IsLocal(p) || !strings.ContainsFunc(p, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	at := "."
	for _, elem := range strings.Split(p, "/") {
		next := path.Join(at, elem)
		if _, err := l.stat(next); err != nil {
			entries, _ := fs.ReadDir(l.fsys, at)
			i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return norm.NFC.String(e.Name()) == elem })
			if i < 0 {
				return ""
			}
			next = path.Join(at, entries[i].Name())
		}
		at = next
	}
	return at
}

func (l *loader) stat(p string) (fs.FileInfo, error) {
	if filepath.IsLocal(p) {
		return fs.Stat(l.fsys, p)
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(l.project.Root, p)
	}
	return l.fsys.outside(p)
}

// fileMeant suggests a similar file in the same folder.
func (l *loader) fileMeant(p string) string {
	if !filepath.IsLocal(p) {
		return ""
	}
	entries, _ := fs.ReadDir(l.fsys, path.Dir(p))
	var out []string
	for _, e := range entries {
		if !e.IsDir() {
			out = append(out, e.Name())
		}
	}
	if n := l.nearest(path.Base(p), out); n != "" {
		return fmt.Sprintf("; did you mean %q?", path.Join(path.Dir(p), n))
	}
	return ""
}

func (l *loader) inBuildTree(p string) bool {
	return strings.HasPrefix(p, l.project.BuildDir+"/")
}

// outputNames maps the declared name of an output to its generate block; the first by path wins.
func (l *loader) outputNames() map[string]string {
	if l.madeAs == nil {
		l.madeAs = map[string]string{}
		for _, made := range sortedKeys(l.generated) {
			label := l.generated[made]
			name := strings.TrimPrefix(made, l.buildPath("gen", graph.Flat(strings.TrimPrefix(label, "generate.")))+"/")
			if l.madeAs[name] == "" {
				l.madeAs[name] = label
			}
		}
	}
	return l.madeAs
}
