package importer

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A folder without build files is drafted from its sources alone. They are not parsed: patterns find
// includes, main functions, kernel launches and the names of device functions. So targets are
// guesses by place, which the user corrects:
//
//   - A file with a main function is a program.
//   - The other sources belong to the folder above them that has programs, or to the outermost
//     folder. If that has one program, and no other uses them, they are part of it. Else they are a
//     library.
//   - A program links a library if it includes a header beside the library's sources, or one with
//     the name of a source that includes it too; and the only library, if there is no other.
//
// A header is searched as compilers do, and then as the nearest file of the tree whose path ends so.
// The folder of such a file becomes an include folder. What #if and #ifdef enclose may be off, so
// there only the folders of headers count.

// Machine describes the local compilers. The zero value knows nothing, and then any header may
// exist.
type Machine struct {
	Includes []string // absolute paths of the header folders of the system and the toolkit
	LibDirs  []string // library folders
	NVCC     string   // "" if there is no toolkit
	HostCXX  string   // the host compiler that it supports
}

// has reports whether one of the folders has the file.
func has(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
}

// tree holds the files of a folder, by their paths in it.
type tree struct {
	Machine
	root       string
	sources    []*source
	files      map[string]*code // nil until it is scanned
	byBase     map[string][]string
	inSystem   map[string]bool     // whether the machine has a header
	qualifiers []string            // __device__ and the macros that contain it
	left       map[string][]string // files in no target, by reason
}

// code holds the matches of patterns in a file.
type code struct {
	text              string // without comments, strings and directives
	includes          []include
	main              bool
	openMP            bool
	gpu               int      // line of code that only compilers for GPUs accept; 0 means none
	declares, defines []string // device functions and variables; defines may name other things too
}

// include is an #include. If it is not certain, #if or #ifdef encloses it.
type include struct {
	name    string // with its quotes or brackets
	line    int
	certain bool
}

// source is a source with what it includes from the tree.
type source struct {
	*code
	path          string
	language, why string // why is "" if the extension implies the language
	hip, gpu      string // the line that says so: file:1
	reads         map[string]bool
	dirs          []string // include folders, in the order of their first use
	system        map[string]bool
	lacking       []missing
}

// missing is a header that is not found, and the line that certainly includes it.
type missing struct{ header, at string }

// draft is a target with its sources.
type draft struct {
	*Target
	dir     string
	sources []*source
	cross   string // why its device code is relocatable
}

var (
	outputRE     = pattern(`^(?:\..*|build|cmake-build-.*|node_modules|CMakeFiles)$`)
	foreignRE    = pattern(`(?i)(?:^|/)(?:third[_-]?party|externals?|vendor|deps|submodules)/`)
	otherRE      = pattern(`^\.(?:[sS]|n?asm|ptx|cubin|fatbin|bc|ll|hsaco|[fF]\d*|for|cuf|cl|ispc|mm?)$`)
	commentRE    = pattern(`(?s)//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'`)
	directiveRE  = pattern(`^\s*#\s*(\w+)\s*(.*?)\s*$`)
	includedRE   = pattern(`^(?:"[^"]+"|<[^>]+>)`)
	mainRE       = pattern(`(?:^|[;}"])\s*(?:int|void|auto)\s+main\s*\(|^main\s*\(`)
	gpuRE        = pattern(`<<<|\b(?:threadIdx|blockIdx|__syncthreads)\b`)
	identifierRE = pattern(`^\w+`)
	driverRE     = pattern(`\bcu(?:Init|Ctx|Module|Mem|Device|Launch|Stream|Event|Func|Link)[A-Z]?\w*\s*\(`)
)

// largest is the largest size of a source that is read.
const largest = 8 << 20

// ReadSources reads the sources below a folder without starting a program.
func ReadSources(dir string, m Machine) (*Build, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{Machine: m, root: abs, files: map[string]*code{}, byBase: map[string][]string{},
		inSystem: map[string]bool{}, qualifiers: []string{"__device__", "__constant__"},
		left: map[string][]string{}}
	if err := t.walk(); err != nil {
		return nil, err
	}
	b := &Build{Root: abs, From: "the sources alone", Draft: true}
	drafts := t.drafts()
	t.relocatable(drafts)
	for _, d := range drafts {
		t.complete(d)
		b.Targets = append(b.Targets, d.Target)
	}
	for _, why := range slices.Sorted(maps.Keys(t.left)) {
		b.note("", "%s: %s", why, several(t.left[why]))
	}
	if len(b.Targets)+len(b.Notes) == 0 {
		return nil, fmt.Errorf("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", dir)
	}
	return b, nil
}

// several lists a few files and counts the rest.
func several(files []string) string {
	if len(files) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:5], ", "), len(files)-5)
	}
	return strings.Join(files, ", ")
}

const refusedSources = "sources that are no regular file, or have a name that kbuild refuses"

// leave records a file that is in no target.
func (t *tree) leave(why, file string) { t.left[why] = append(t.left[why], file) }

// walk collects the files of the tree and reads its sources. It skips build trees. Files of others
// are used only if a source includes them.
func (t *tree) walk() error {
	var sources []string
	err := filepath.WalkDir(t.root, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(t.root, p)
		if err != nil && rel != "." {
			t.leave("folders that cannot be read", rel)
			return nil
		}
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, notCMake := os.Lstat(filepath.Join(p, "CMakeCache.txt"))
			_, notOurs := os.Lstat(filepath.Join(p, ".kbuild"))
			isTree := notCMake == nil || notOurs == nil
			if rel != "." && (isTree || outputRE().MatchString(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := os.Stat(p)
		if err == nil && info.IsDir() {
			t.leave("links to folders are not followed", rel)
		}
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(rel, "-") || !utf8.ValidString(rel) {
			if isSource(rel) && (err != nil || !info.IsDir()) {
				t.leave(refusedSources, rel)
			}
			return nil
		}
		t.files[rel] = nil
		t.byBase[name] = append(t.byBase[name], rel)
		foreign := foreignRE().MatchString(rel)
		switch {
		case isSource(rel) && foreign:
			t.leave("sources in folders of third-party code", rel)
		case isSource(rel):
			sources = append(sources, rel)
		case path.Ext(name) == ".a":
			t.leave("archives, which prebuilt blocks can name", rel)
		case !foreign && otherRE().MatchString(path.Ext(name)):
			t.leave("files that are no C, C++, CUDA or HIP", rel)
		}
		return nil
	})
	for _, name := range sources {
		t.sources = append(t.sources, t.source(name))
	}
	return err
}

// isSource reports whether a draft compiles the file. Assembler is left to the user.
func isSource(file string) bool {
	language := manifest.LanguageOf(file)
	return language != "" && language != "asm" && !strings.HasPrefix(path.Base(file), ".")
}

// scan searches a file for what the patterns match.
func (t *tree) scan(file string) *code {
	if c := t.files[file]; c != nil {
		return c
	}
	c := &code{}
	t.files[file] = c
	name := filepath.Join(t.root, file)
	if info, err := os.Stat(name); err != nil || info.Size() > largest {
		return c
	}
	bytes, _ := regular.Read(name)
	text := commentRE().ReplaceAllStringFunc(string(bytes), func(s string) string {
		if s[0] == '"' || s[0] == '\'' {
			return s
		}
		return " " + strings.Repeat("\n", strings.Count(s, "\n"))
	})
	var open []int // branches of #if around a line: 1 is read, -1 is not, 0 is unknown
	continued := false
	var body strings.Builder
	for i, line := range strings.Split(text, "\n") {
		certain := !slices.ContainsFunc(open, func(branch int) bool { return branch < 1 })
		m := directiveRE().FindStringSubmatch(line)
		continues := strings.HasSuffix(strings.TrimSpace(line), "\\")
		if m == nil {
			if !continued {
				line = stringRE().ReplaceAllString(line, `""`)
				body.WriteString(line + "\n")
				c.main = c.main || certain && mainRE().MatchString(line)
				if c.gpu == 0 && certain && gpuRE().MatchString(line) {
					c.gpu = i + 1
				}
			}
			continued = continued && continues
			continue
		}
		continued = continues
		last := len(open) - 1
		switch rest := m[2]; m[1] {
		case "ifndef":
			open = append(open, 1)
		case "if", "ifdef":
			branch := 0
			if rest == "0" || m[1] == "ifdef" && !strings.HasPrefix(rest, "__") {
				branch = -1
			} else if rest == "1" {
				branch = 1
			}
			open = append(open, branch)
		case "elif":
			if last >= 0 {
				open[last] = 0
			}
		case "else":
			if last >= 0 {
				open[last] = -open[last]
			}
		case "endif":
			open = open[:max(last, 0)]
		case "include":
			if name := includedRE().FindString(rest); name != "" {
				c.includes = append(c.includes, include{name, i + 1, certain})
			}
		case "pragma":
			c.openMP = c.openMP || strings.HasPrefix(rest, "omp ")
		case "define":
			if name := identifierRE().FindString(rest); strings.Contains(rest, "__device__") && name != "" {
				t.qualifiers = appendNew(t.qualifiers, name)
			}
		}
	}
	c.text = body.String()
	return c
}

// source reads a source with all that it includes.
func (t *tree) source(file string) *source {
	s := &source{path: file, code: t.scan(file), language: manifest.LanguageOf(file),
		reads: map[string]bool{}, system: map[string]bool{}}
	t.follow(s, file, true)
	switch {
	case s.hip != "" && s.language != "hip":
		s.language, s.why = "hip", s.hip+" includes hip/hip_runtime.h."
	case s.gpu != "" && s.language != "cuda" && s.language != "hip":
		s.language, s.why = "cuda", s.gpu+" is code of a GPU."
	}
	return s
}

// follow reads a file that a source includes, and what that includes.
func (t *tree) follow(s *source, file string, certain bool) {
	if s.reads[file] {
		return
	}
	s.reads[file] = true
	c := t.scan(file)
	if certain && c.gpu > 0 && s.gpu == "" {
		s.gpu = fmt.Sprintf("%s:%d", file, c.gpu)
	}
	for _, i := range c.includes {
		certain := certain && i.certain
		plain, at := strings.Trim(i.name, `"<>`), fmt.Sprintf("%s:%d", file, i.line)
		if certain && s.hip == "" && strings.HasPrefix(plain, "hip/hip_runtime") {
			s.hip = at
		}
		found, dir := t.find(s, file, i.name)
		switch {
		case found != "":
			if dir != "" {
				s.dirs = appendNew(s.dirs, dir)
			}
			t.follow(s, found, certain)
		case len(t.Includes) == 0 || t.inMachine(plain):
			s.system[plain] = true
		case certain:
			s.lacking = append(s.lacking, missing{i.name, at})
		}
	}
}

// inMachine reports whether the compilers find a header outside of the tree.
func (t *tree) inMachine(header string) bool {
	known, ok := t.inSystem[header]
	if !ok {
		known = has(t.Includes, header)
		t.inSystem[header] = known
	}
	return known
}

// find returns the file of the tree that an #include names, and the folder that must be searched
// for it. The folder is "" if the compiler finds the file anyway.
func (t *tree) find(s *source, from, name string) (file, dir string) {
	plain := path.Clean(strings.Trim(name, `"<>`))
	here := path.Dir(from)
	if _, ok := t.files[path.Join(here, plain)]; ok && name[0] == '"' {
		return path.Join(here, plain), ""
	}
	for _, dir := range s.dirs {
		if _, ok := t.files[path.Join(dir, plain)]; ok {
			return path.Join(dir, plain), dir
		}
	}
	if t.inMachine(plain) {
		return "", ""
	}
	nearest := 1 << 30
	for _, f := range t.byBase[path.Base(plain)] {
		if d, ok := strings.CutSuffix("./"+f, "/"+plain); ok {
			up, _ := filepath.Rel(here, d)
			far := 4*strings.Count(up+"/", "/") + strings.Count(d, "/")
			if far < nearest {
				nearest, file, dir = far, f, path.Clean(d)
			}
		}
	}
	return file, dir
}

// drafts groups the sources into programs and libraries.
func (t *tree) drafts() []*draft {
	included := map[string]bool{}
	for _, s := range t.sources {
		for f := range s.reads {
			if f != s.path && isSource(f) {
				included[f] = true
			}
		}
	}
	var programs, libraries []*draft
	var parts []*source
	for _, s := range t.sources {
		for _, l := range s.lacking {
			t.leave(l.header+" was not found", s.path)
		}
		switch {
		case s.main:
			p := &draft{Target: &Target{Kind: "executable"}, dir: path.Dir(s.path)}
			p.sources = []*source{s}
			for _, l := range s.lacking {
				p.Aside = append(p.Aside, fmt.Sprintf("Needs %s, not found: %s.", l.header, l.at))
			}
			programs = append(programs, p)
		case included[s.path]:
			t.leave("included by other sources, so not compiled", s.path)
		case len(s.lacking) == 0:
			parts = append(parts, s)
		}
	}
	for _, s := range parts {
		home := path.Dir(s.path)
		hasProgram := func(p *draft) bool { return p.dir == home }
		for home != "." && !slices.ContainsFunc(programs, hasProgram) {
			home = path.Dir(home)
		}
		if !slices.ContainsFunc(programs, hasProgram) {
			home, _, _ = strings.Cut(path.Dir(s.path), "/")
		}
		i := slices.IndexFunc(libraries, func(l *draft) bool {
			return l.dir == home && (l.sources[0].language == "hip") == (s.language == "hip")
		})
		if i < 0 {
			i = len(libraries)
			libraries = append(libraries, &draft{Target: &Target{Kind: "library"}, dir: home})
		}
		libraries[i].sources = append(libraries[i].sources, s)
	}
	libraries = slices.DeleteFunc(libraries, func(l *draft) bool {
		var own []*draft
		for _, p := range programs {
			if linkable(p.sources, l.sources) && (p.dir == l.dir || l.serves(p.sources[0])) {
				own = append(own, p)
			}
		}
		serves := func(s *source) bool { return !slices.Contains(l.sources, s) && l.serves(s) }
		if len(own) != 1 || own[0].dir != l.dir || slices.ContainsFunc(parts, serves) {
			return false
		}
		own[0].sources = append(own[0].sources, l.sources...)
		return true
	})
	all := slices.Concat(libraries, programs)
	nameDrafts(all, len(programs) > 0)
	for _, p := range programs {
		todo := slices.Clone(p.sources)
		for i := 0; i < len(todo); i++ {
			for _, l := range libraries {
				near := l.dir == p.dir || len(libraries) == 1 || l.serves(todo[i])
				if near && linkable(todo, l.sources) && !slices.Contains(p.Deps, l.Name) {
					p.Deps = append(p.Deps, l.Name)
					todo = append(todo, l.sources...)
				}
			}
		}
		slices.Sort(p.Deps)
	}
	return all
}

// serves reports whether a source includes a header beside the sources of a library, or one with the
// name of a source that includes it too.
func (d *draft) serves(s *source) bool {
	for h := range s.reads {
		for _, own := range d.sources {
			named := own.reads[h] && stem(own.path) == stem(h)
			if !isSource(h) && (named || path.Dir(own.path) == path.Dir(h)) {
				return true
			}
		}
	}
	return false
}

// linkable reports whether the sources can be linked: their device code is of one vendor.
func linkable(some, others []*source) bool {
	languages := map[string]bool{}
	for _, s := range slices.Concat(some, others) {
		languages[s.language] = true
	}
	return !languages["cuda"] || !languages["hip"]
}

func stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

// plainRE matches the ends of folders that do not describe their content.
var plainRE = pattern(`(?i)(?:^|/)(?:src|source|sources|cuda|hip|gpu|cpp|apps?)$`)

// nameDrafts names programs after their sources, and libraries and the files main after their
// folders.
func nameDrafts(all []*draft, programs bool) {
	taken := map[string]bool{}
	for _, d := range all {
		dir, name := d.dir, stem(d.sources[0].path)
		for name == "main" && plainRE().MatchString(dir) {
			dir = path.Dir(dir)
		}
		switch {
		case dir != "." && (d.Kind == "library" || name == "main"):
			name = path.Base(dir)
		case d.Kind == "library" && programs:
			name = "common"
		case d.Kind == "library":
			name = "kernels"
		}
		d.Name = plainName(name)
		if taken[d.Kind+d.Name] && dir != "." {
			d.Name = plainName(strings.ReplaceAll(dir, "/", "_") + "_" + name)
		}
		for n, name := 2, d.Name; taken[d.Kind+d.Name]; n++ {
			d.Name = fmt.Sprintf("%s_%d", name, n)
		}
		taken[d.Kind+d.Name] = true
	}
}

// relocatable finds the targets whose sources name device code of each other.
func (t *tree) relocatable(drafts []*draft) {
	re := regexp.MustCompile(`(\bextern\s+)?\b(?:` + strings.Join(t.qualifiers, "|") + `)\b` +
		`[^;{}()=]*?(\w+)\s*(\([^;{}]*\)[^;{}=]*|\[[^;{}=]*)?([;{=])`)
	for _, c := range t.files {
		if c == nil {
			continue
		}
		for _, m := range re.FindAllStringSubmatch(c.text, -1) {
			if m[4] == ";" && (m[1] != "" || strings.HasPrefix(m[3], "(")) {
				c.declares = appendNew(c.declares, m[2])
			} else {
				c.defines = appendNew(c.defines, m[2])
			}
		}
	}
	for _, d := range drafts {
		for _, s := range d.sources {
			var declared, defined []string
			for f := range s.reads {
				declared = append(declared, t.files[f].declares...)
				defined = append(defined, t.files[f].defines...)
			}
			slices.Sort(declared)
			for _, name := range slices.Compact(declared) {
				isNamed := regexp.MustCompile(`\b` + name + `\b`).MatchString
				if slices.Contains(defined, name) || !isNamed(s.text) {
					continue
				}
				for _, other := range drafts {
					for _, o := range other.sources {
						if slices.Contains(o.defines, name) && linkable(d.sources, other.sources) {
							why := fmt.Sprintf("%s of %s is named in %s.", name, o.path, s.path)
							d.cross, other.cross = cmp.Or(d.cross, why), cmp.Or(other.cross, why)
						}
					}
				}
			}
		}
	}
}

// draftCodes lists the device code that a draft ships, by language.
var draftCodes = map[string][]gencode.Code{
	"cuda": {{Kind: gencode.SASS, Num: 80}, {Kind: gencode.SASS, Num: 90}},
	"hip":  {{Kind: gencode.GFX, Name: "gfx90a"}},
}

// complete sets everything that a target has besides its name and dependencies. All its sources
// have the same options.
func (t *tree) complete(d *draft) {
	slices.SortFunc(d.sources, func(a, b *source) int { return strings.Compare(a.path, b.path) })
	var includes, host []string
	inTarget := map[string]int{} // sources by pattern
	for _, s := range d.sources {
		includes = append(includes, s.dirs...)
		if s.openMP {
			host = []string{"-fopenmp"}
		}
		inTarget[sourcePattern(s.path)]++
		i := slices.IndexFunc(d.Groups, func(g *Group) bool { return g.Language == s.language })
		if i < 0 {
			i = len(d.Groups)
			g := &Group{Language: s.language}
			g.Codes, g.Mode = draftCodes[s.language], "whole"
			if d.cross != "" && g.isDevice() {
				g.Mode, g.ModeWhy = "lto", d.cross
			}
			d.Groups = append(d.Groups, g)
		}
		g := d.Groups[i]
		g.Sources = append(g.Sources, s.path)
		if s.why != "" && len(g.Why) < 4 {
			g.Why = append(g.Why, s.why)
		}
		d.Libs = append(d.Libs, s.libs()...)
	}
	for _, g := range d.Groups {
		for _, dir := range includes {
			g.Includes = appendNew(g.Includes, dir)
		}
		g.Host = host
	}
	slices.Sort(d.Libs)
	d.Libs = slices.Compact(d.Libs)
	for _, name := range d.Libs {
		if len(t.LibDirs) > 0 && !has(t.LibDirs, "lib"+name+".so") && !has(t.LibDirs, "lib"+name+".a") {
			d.Aside = append(d.Aside, fmt.Sprintf("Needs -l%s, not found.", name))
		}
	}
	inFolder := map[string]int{}
	for _, f := range t.left[refusedSources] {
		inFolder[sourcePattern(f)]++ // a glob of the folder would find it
	}
	for f := range t.files {
		if !strings.HasPrefix(path.Base(f), ".") {
			inFolder[sourcePattern(f)]++
		}
	}
	for _, p := range slices.Sorted(maps.Keys(inTarget)) {
		if n := inTarget[p]; n > 1 && n == inFolder[p] && !strings.ContainsAny(path.Dir(p), `*?[]{}\`) {
			d.Globs = append(d.Globs, p)
		}
	}
}

// sourcePattern returns the pattern for the files of one folder and extension.
func sourcePattern(file string) string { return path.Join(path.Dir(file), "*"+path.Ext(file)) }

// libraries lists the libraries of headers: header=library. A header may end in *.
const libraries = `cublas*=cublas cublasLt.h=cublasLt cufft*=cufft curand*=curand cusparse*=cusparse
	cusolver*=cusolver cudnn*=cudnn nccl.h=nccl nvml.h=nvidia-ml nvrtc.h=nvrtc nvJitLink.h=nvJitLink
	nvjpeg.h=nvjpeg cupti*=cupti nvToolsExt.h=nvToolsExt nvtx3/*=dl
	npp*=nppc nppi*=nppial nppi*=nppicc nppi*=nppidei nppi*=nppif nppi*=nppig nppi*=nppim
	nppi*=nppist nppi*=nppitc npps.h=npps
	hipblas*=hipblas rocblas*=rocblas hipfft*=hipfft hiprand/*=hiprand hipsparse*=hipsparse
	rccl*=rccl pthread.h=pthread thread=pthread dlfcn.h=dl omp.h=gomp mpi.h=mpi zlib.h=z png.h=png
	jpeglib.h=jpeg gtest/*=gtest gtest/*=pthread benchmark/*=benchmark benchmark/*=pthread GL/*=GL
	GL/glu.h=GLU GL/glut.h=glut GL/freeglut*=glut GL/glew.h=GLEW GLFW/*=glfw fftw3.h=fftw3 fmt/*=fmt
	opencv2/*=opencv_core opencv2/*=opencv_imgproc opencv2/*=opencv_imgcodecs
	opencv2/*=opencv_highgui`

// libs returns the libraries that a source needs, by its headers.
func (s *source) libs() (libs []string) {
	for entry := range strings.FieldsSeq(libraries) {
		header, lib, _ := strings.Cut(entry, "=")
		start, isPrefix := strings.CutSuffix(header, "*")
		for h := range s.system {
			if h == header || isPrefix && strings.HasPrefix(h, start) {
				libs = append(libs, lib)
			}
		}
	}
	if s.language == "c" && s.system["math.h"] {
		libs = append(libs, "m")
	}
	if s.openMP {
		libs = append(libs, "gomp")
	}
	if s.system["cuda.h"] && driverRE().MatchString(s.text) {
		libs = append(libs, "cuda")
	}
	return libs
}
