package manifest

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/text/unicode/norm"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// byEnding maps file extensions of host code to languages.
var byEnding = map[string]string{
	".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".C": "c++",
	".s": "asm", ".S": "asm",
}

// LanguageOf returns the language of a source by its file extension; "" if the extension is
// unknown. A .cu file is HIP if its target ships gfx code.
func LanguageOf(file string) string {
	ending := path.Ext(file)
	for language, its := range gencode.Languages {
		if ending == its {
			return language
		}
	}
	return byEnding[ending]
}

// deviceLanguages lists the languages with device code.
var deviceLanguages = slices.Sorted(maps.Keys(gencode.Languages))

var headers = []string{".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inl", ".inc", ".ipp", ".tpp"}

// sources reads the sources of a target and applies its partitions.
func (r *reader) sources(rec *record) []Source {
	l, items := r.l, rec.Listed
	if f := r.field("sources"); f != nil && isEmpty(f.val) {
		help := `Write for example sources = glob("src/*.cu").`
		if r.b.kind == "library" {
			help = `Write for example sources = glob("src/*.cu"), or sources = [] for a library of headers.`
		}
		l.errorAt(f.rng, help, "%s has no sources", r.b.heading())
	}
	for i := range items {
		items[i].text = r.sourcePath(items[i].text)
	}
	items = r.distinct(items)
	parts := r.partitions(items)
	// By partition: 100,000 sources share them.
	settings := map[*record]Source{}
	out := make([]Source, 0, len(items))
	for _, it := range items {
		p := parts[it.text].record
		s, ok := settings[p]
		if !ok {
			s = r.settings(rec, p)
			settings[p] = s
		}
		s.Path, s.Pos, s.Generated = it.text, position(it.rng), l.generated[it.text]
		if r.checkSource(&s, it.rng, rec.Gencode.Language()) {
			s.Std = rec.standard(s.Language, p)
			r.checkCode(&s, p, rec.Gencode.Language())
			out = append(out, s)
		}
	}
	return out
}

// distinct drops and reports a source that is listed twice: its object would be linked twice.
func (r *reader) distinct(items []item) []item {
	first := map[string]item{}
	var out []item
	for _, it := range items {
		if f, ok := first[it.text]; ok {
			r.l.bothAt(it.rng, f.rng, "first here", "Wrap lists that overlap in distinct().",
				"%s is listed twice in the sources of %s", it.text, r.b.heading())
			continue
		}
		first[it.text] = it
		out = append(out, it)
	}
	return out
}

// checkSource sets the language of s and checks that its file exists.
func (r *reader) checkSource(s *Source, rng hcl.Range, ships string) bool {
	l, ending := r.l, path.Ext(s.Path)
	switch {
	case s.Path == "":
		return l.errorAt(rng, "", "sources has an empty element")
	case strings.HasPrefix(s.Path, "-"):
		return l.errorAt(rng, "Rename it, or move it into a folder.",
			"compilers take %s for an option", s.Path)
	case strings.ContainsFunc(s.Path, unicode.IsControl):
		return l.errorAt(rng, "Rename it.",
			"compilers cannot report a file with the name %q: it has a control character", s.Path)
	case l.isFolder(s.Path):
		return l.errorAt(rng, fmt.Sprintf("Write glob(%q) for the files in it.", s.Path+"/*.cu"),
			"%s is a folder", s.Path)
	case s.Language != "":
	case slices.Contains(headers, ending):
		return l.errorAt(rng, "Drop it from sources: compilers find headers through includes, and kbuild "+
			"learns which were read.", "%s is a header", s.Path)
	case LanguageOf(s.Path) == "":
		return l.errorAt(rng, endingHelp(ending), "cannot tell the language of %s", s.Path)
	default:
		s.Language = LanguageOf(s.Path)
	}
	if s.Language == "cuda" {
		s.Language = cmp.Or(ships, s.Language)
	}
	if !s.IsDevice() {
		s.Mode = ""
	}
	return s.Generated != "" || l.mustExist(s.Path, rng)
}

// checkCode reports code of a partition that a device link does not allow: nvlink silently omits
// code that one object lacks.
func (r *reader) checkCode(s *Source, p *record, ships string) {
	if s.Code == nil {
		return
	}
	at := p.b.body.Attributes["code"].NameRange
	if s.Code[0].Language() != cmp.Or(ships, "cuda") {
		r.l.errorAt(at, "Make two targets, one for each vendor.",
			"%s is compiled for %s, and its target ships code of another vendor", s.Path, s.Code[0])
	}
	if s.Mode != "whole" && s.Mode != "" {
		r.l.errorAt(at,
			`Put these sources into a library of their own, or set mode = "whole" here.`,
			"%s has mode %q, and a device link needs the same code of all its sources",
			s.Path, s.Mode)
	}
}

func endingHelp(ending string) string {
	switch ending {
	case ".a", ".so", ".lib":
		return "Declare it as a prebuilt and name that in deps."
	case ".o", ".obj":
		return "Put it into an archive, declare that as a prebuilt and name it in deps."
	case ".ptx", ".cubin", ".fatbin":
		return "Device code is loaded at run time or embedded by a module; it is not a source."
	case ".cppm", ".cxxm", ".ccm", ".c++m", ".ixx", ".mpp":
		return "kbuild does not build C++20 modules. " + moduleHelp
	}
	return fmt.Sprintf("Known endings: .c, .cc, .cpp, .cxx, .cu, .hip, .s, .S; for others set "+
		"language to one of %s.", strings.Join(attrLanguage.Words, ", "))
}

// A partition selects among the sources of its target and changes how they are compiled. selection
// is the partition of a source, and the place of the pattern that selected it.
type selection struct {
	*record
	rng hcl.Range
}

// partitions returns the partition of each source that has one.
func (r *reader) partitions(sources []item) map[string]selection {
	out := map[string]selection{}
	for _, b := range r.b.nested {
		if b.kind != "partition" {
			continue
		}
		p := &record{Target: &Target{}, b: b}
		p.AttrPos = r.l.reader(b, r.values).decode(p)
		if a := b.body.Attributes["code"]; a != nil && r.b.kind == "module" {
			r.l.errorAt(a.NameRange, "Make a module of its own for these sources.",
				"the files of a module are for one list of code")
			p.Code = nil
		}
		// --arch keeps the codes that it names, or all if it names none of them.
		want := r.l.archs()
		other := func(c gencode.Code) bool { return !slices.Contains(want, c) }
		if kept := slices.DeleteFunc(slices.Clone(p.Code), other); len(kept) > 0 {
			p.Code = kept
		}
		if r.field("sources") == nil {
			continue // there is no source to select; the error was reported
		}
		for _, m := range p.Match {
			r.selectSources(out, sources, selection{p, m.rng}, m.text)
		}
	}
	return out
}

// selectSources adds the sources that match a pattern.
func (r *reader) selectSources(
	out map[string]selection, sources []item, by selection, written string,
) {
	pattern, found := r.sourcePath(written), false
	if _, err := path.Match(pattern, ""); err != nil {
		r.l.errorAt(by.rng, "", "match: a bracket is not closed in %q", written)
		return
	}
	for _, s := range sources {
		if s.text != pattern && !matchPath(pattern, s.text) {
			continue
		}
		found = true
		if other, taken := out[s.text]; taken && other.b != by.b {
			r.l.bothAt(by.rng, other.rng, "selected here for "+other.b.name,
				"A source belongs to one partition.",
				"%s is in the partitions %s and %s", s.text, other.b.name, by.b.name)
			continue
		}
		out[s.text] = by
	}
	if !found {
		var names []string
		for i, s := range sources {
			if i == 6 {
				names = append(names, "...")
				break
			}
			names = append(names, s.text)
		}
		r.l.errorAt(by.rng, "Its sources are "+strings.Join(names, ", ")+".",
			"%q matches no source of %s", written, r.b.heading())
	}
}

// settings returns the settings of a source: those of its target, where its partition does not
// replace them. Defines are merged, and flags appended. p may be nil.
func (r *reader) settings(rec, p *record) Source {
	s := Source{Defines: rec.Macros, Flags: &rec.Flags}
	if p == nil {
		p = rec
	} else {
		s = Source{Partition: p.b.name, Includes: p.Includes, AttrPos: p.AttrPos, Code: p.Code,
			Defines: mergeDefines(rec.Macros, p.Macros), Flags: rec.Flags.with(&p.Flags)}
	}
	to := reflect.ValueOf(&s).Elem()
	own, others := reflect.ValueOf(p).Elem(), reflect.ValueOf(rec).Elem()
	fields := r.l.fieldsOf(own.Type())
	for name, index := range r.l.fieldsOf(to.Type()) {
		v := own.FieldByIndex(fields[name])
		if v.IsZero() {
			v = others.FieldByIndex(fields[name])
		}
		to.FieldByIndex(index).Set(v)
	}
	return s
}

// standard returns the language standard of sources in a partition, which may be nil. Without
// cuda_std, CUDA and HIP use the standard for C++; so a partition's std also replaces the target's
// cuda_std.
func (rec *record) standard(language string, p *record) string {
	if p == nil {
		p = &record{}
	}
	switch cxx := cmp.Or(p.Standards.cxx, rec.Standards.cxx); language {
	case "c":
		return cmp.Or(p.Standards.c, rec.Standards.c)
	case "c++":
		return cxx
	case "asm":
		return ""
	default:
		return cmp.Or(p.CUDAStandards.cxx, p.Standards.cxx, rec.CUDAStandards.cxx, cxx)
	}
}

var standardRE = pattern(`^(?:c|gnu)(\+\+)?[0-9][0-9a-z]$`)

var standards = strings.Fields("c++03 c++11 c++14 c++17 c++20 c++23 " +
	"gnu++11 gnu++14 gnu++17 gnu++20 gnu++23 c89 c90 c99 c11 c17 c23 gnu99 gnu11 gnu17 gnu23")

// standard reads std or cuda_std: one standard, or a list of one for C++ and one for C.
func (f *field) standard() (s standard) {
	var items []item
	if text, ok := asText(f.val); ok {
		items = []item{{text, f.rng}}
	} else if isList(f.val) {
		items = f.items()
	} else {
		f.wrong(`a standard such as "c++17"`)
	}
	for _, it := range items {
		m := standardRE().FindStringSubmatch(it.text)
		into := &s.c
		switch {
		case m == nil:
			meant := didYouMean(it.text, standards)
			if slices.Contains(standards, "c++"+it.text) {
				meant = fmt.Sprintf("; did you mean %q?", "c++"+it.text)
			}
			f.errorAt(it.rng,
				`Write for example "c++17", "gnu++17", "c11", or a list of one of each.`,
				"%s: %q is not a standard of C or C++%s", f.row.Name, it.text, meant)
			continue
		case m[1] != "":
			into = &s.cxx
		}
		if *into != "" {
			f.errorAt(it.rng, "", "%s names %s and %s for one language", f.row.Name, *into,
				it.text)
		}
		*into = it.text
	}
	if f.row.Name == "cuda_std" && s.c != "" {
		f.errorAt(f.rng, `Write for example "c++17".`,
			"cuda_std: %s is a standard of C, and CUDA is compiled as C++", s.c)
		return standard{}
	}
	return s
}

var identifierRE = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// defines reads macros: null becomes -DNAME, a boolean 1 or 0 as in C.
func (r *reader) defines(f *field) []Define {
	var out []Define
	m := f.textMap()
	for _, name := range sortedKeys(m) {
		if !identifierRE().MatchString(name) {
			r.l.errorAt(f.keyRange(name), "Write defines = { NAME = value }; null gives -DNAME.",
				"%q is not the name of a macro", name)
			continue
		}
		v := m[name]
		if v != nil && f.val.AsValueMap()[name].Type() == cty.Bool {
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

func (l *sourceTree) isFolder(p string) bool {
	if l.generated[p] != "" {
		return false // its command has not run yet: an existing path may be from an earlier build
	}
	st, err := l.stat(p)
	return err == nil && st.IsDir()
}

// mustExist checks that a source file exists. A file in the build tree does not count: it is from
// an earlier build, or an output without a declared dependency.
func (l *sourceTree) mustExist(p string, rng hcl.Range) bool {
	info, err := l.stat(p)
	switch {
	case err == nil && !info.IsDir() && regular.Kind(info.Mode()) != "" && p != os.DevNull:
		l.errorAt(rng, "A program that reads it may wait forever.", "%s is %s, not a file", p,
			regular.Kind(info.Mode()))
	case l.inBuildTree(p):
		l.errorAt(rng, "Declare it among the outputs of a generate block.",
			"%s is in the build tree, and no generate block makes it", p)
	case err == nil:
		return true
	case l.outputNames()[p] != "":
		l.errorAt(rng, "Write "+l.outputNames()[p]+".outputs: generated files are in the build tree.",
			"there is no file %s", p)
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
func (l *sourceTree) decomposed(p string) string {
	foreign := func(r rune) bool { return r > unicode.MaxASCII }
	if !filepath.IsLocal(p) || !strings.ContainsFunc(p, foreign) {
		return ""
	}
	at := "."
	for _, elem := range strings.Split(p, "/") {
		next := path.Join(at, elem)
		if _, err := l.stat(next); err != nil {
			entries, _ := fs.ReadDir(l.fsys, at)
			i := slices.IndexFunc(entries,
				func(e fs.DirEntry) bool { return norm.NFC.String(e.Name()) == elem })
			if i < 0 {
				return ""
			}
			next = path.Join(at, entries[i].Name())
		}
		at = next
	}
	return at
}

func (l *sourceTree) stat(p string) (fs.FileInfo, error) {
	if filepath.IsLocal(p) {
		return fs.Stat(l.fsys, p)
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(l.project.Root, p)
	}
	info, err := os.Stat(p)
	l.fsys.note(filepath.ToSlash(p), cache.KindFile, err)
	return info, err
}

// fileMeant suggests a similar file in the same folder.
func (l *sourceTree) fileMeant(p string) string {
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

func (l *sourceTree) inBuildTree(p string) bool {
	return strings.HasPrefix(p, l.project.BuildDir+"/")
}

// outputNames maps the declared name of an output to its generate block; the first by path wins.
func (l *sourceTree) outputNames() map[string]string {
	if l.madeAs == nil {
		l.madeAs = map[string]string{}
		for _, made := range sortedKeys(l.generated) {
			label := l.generated[made]
			name := strings.TrimPrefix(made,
				l.buildPath("gen", fileset.Flat(strings.TrimPrefix(label, "generate.")))+"/")
			if l.madeAs[name] == "" {
				l.madeAs[name] = label
			}
		}
	}
	return l.madeAs
}
