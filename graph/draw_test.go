package graph

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sketch builds graphs for drawing: real shapes, no command lines.
type sketch struct {
	*Graph
	label string
	t     *Target
}

func newSketch() *sketch { return &sketch{Graph: &Graph{BuildDir: "build"}} }

func (s *sketch) target(kind, name string, deps ...string) {
	s.label = kind + "." + name
	s.t = &Target{Label: s.label, Name: name, Kind: kind, Deps: deps, Pos: Pos{"kernels.hcl", 10 * (len(s.Targets) + 1), 1}}
	s.Targets = append(s.Targets, s.t)
}

func (s *sketch) action(kind Kind, name, out string, inputs ...string) *Action {
	a := s.Add(&Action{Kind: kind, Target: s.label, Name: name, Inputs: inputs, Outputs: []string{out}, Pos: s.t.Pos})
	s.t.Actions = append(s.t.Actions, a.ID)
	s.t.Outputs = a.Outputs
	return a
}

func (s *sketch) sealed() *Graph {
	if err := s.Seal(); err != nil {
		panic(err)
	}
	return s.Graph
}

func (s *sketch) compile(src, mode string, archs ...string) string {
	out := "build/obj/" + s.t.Name + "/" + src + ".o"
	if strings.HasSuffix(src, ".cu") {
		a := s.action(Compile, src, out, src)
		a.Mode, a.Archs = mode, archs
	} else {
		s.action(HostCompile, src, out, src)
	}
	return out
}

// partialLTO is a library with an rdc partition and a prebuilt library without LTO-IR, for two
// GPUs.
func partialLTO() *Graph {
	s := newSketch()
	s.target("generate", "tables")
	s.action(Generate, "tables", "build/gen/tables/tables.cuh", "tools/tables.py")
	s.target("library", "solver", "generate.tables")
	scan := s.compile("src/solver/scan.cu", "lto", "lto_80", "lto_90")
	s.Actions[1].OrderOnly = []string{"build/gen/tables/tables.cuh"}
	fft := s.compile("src/solver/fft.cu", "lto", "lto_80", "lto_90")
	sort := s.compile("src/solver/sort_keys.cu", "rdc", "sm_80", "sm_90")
	lib := "build/lib/libsolver.a"
	s.action(Archive, "libsolver.a", lib, scan, fft, sort)
	s.target("prebuilt", "spectra")
	s.target("executable", "bench", "library.solver", "prebuilt.spectra")
	suite := s.compile("bench/suite.cu", "lto", "lto_80", "lto_90")
	main := s.compile("bench/main.cpp", "")
	spectra := "third_party/libspectra.a"
	dlink := s.action(DeviceLink, "bench", "build/obj/bench/bench.dlink.o", suite, scan, fft, sort, spectra)
	dlink.Mode, dlink.Archs = "lto", []string{"sm_80", "sm_90"}
	dlink.Work.Link = &Link{LTO: true, NonLTO: []string{sort, spectra}, Owners: map[string]string{spectra: "prebuilt.spectra", scan: "library.solver"}}
	s.action(HostLink, "bin/bench", "build/bin/bench", main, suite, "build/obj/bench/bench.dlink.o", lib, spectra)
	s.Default = []string{"executable.bench"}
	return s.sealed()
}

// tenTargets has every kind of target and action.
func tenTargets() *Graph {
	s := newSketch()
	s.target("generate", "tables")
	s.action(Generate, "tables", "build/gen/tables/tables.cuh", "tools/tables.py")
	var libs, objs []string
	for i, name := range []string{"core", "fft", "sparse", "io"} {
		s.target("library", name, "generate.tables")
		var mine []string
		for j := range 3 + i%2 {
			mine = append(mine, s.compile(fmt.Sprintf("src/%s/part%d.cu", name, j), []string{"lto", "rdc"}[i%2], "sm_80", "sm_90"))
			s.Actions[len(s.Actions)-1].OrderOnly = []string{"build/gen/tables/tables.cuh"}
		}
		objs = append(objs, mine...)
		libs = append(libs, "build/lib/lib"+name+".a")
		s.action(Archive, "lib"+name+".a", libs[i], mine...)
	}
	s.target("module", "gemm:dtype=f16,tile=64")
	m := s.action(ModuleEmit, "gemm.f16.64.fatbin", "build/modules/gemm.f16.64.fatbin", "src/gemm.cu")
	m.Mode, m.Archs = "whole", []string{"sm_80", "sm_90"}
	s.action(Embed, "gemm", "build/gen/gemm/gemm.c", "build/modules/gemm.f16.64.fatbin")
	s.action(HostCompile, "gemm.S", "build/obj/gemm/gemm.S.o", "build/gen/gemm/gemm.c")
	for _, name := range []string{"solve", "bench"} {
		s.target("executable", name)
		mine := []string{s.compile("apps/"+name+".cu", "lto", "sm_80", "sm_90"), s.compile("apps/"+name+"_main.cpp", "")}
		d := s.action(DeviceLink, name, "build/obj/"+name+".dlink.o", append(append([]string{}, mine[0]), objs...)...)
		d.Mode, d.Archs, d.Work.Link = "lto", []string{"sm_80", "sm_90"}, &Link{LTO: true}
		for _, o := range objs {
			if strings.Contains(o, "/fft/") || strings.Contains(o, "/io/") {
				d.Work.Link.NonLTO = append(d.Work.Link.NonLTO, o)
			}
		}
		s.action(HostLink, "bin/"+name, "build/bin/"+name, append(append(append(mine, d.Outputs...), "build/obj/gemm/gemm.S.o"), libs...)...)
	}
	s.target("library", "capi")
	w := s.compile("capi/wrap.cu", "rdc", "sm_80", "sm_90")
	d := s.action(DeviceLink, "capi", "build/obj/capi.dlink.o", w)
	d.Mode, d.Archs, d.Work.Link = "rdc", []string{"sm_80", "sm_90"}, &Link{}
	s.action(SharedLink, "lib/libcapi.so", "build/lib/libcapi.so", w, "build/obj/capi.dlink.o", "/opt/vendor/libvendor.so")
	s.target("executable", "tool")
	t := s.compile("apps/tool.cpp", "")
	s.action(HostLink, "bin/tool", "build/bin/tool", t, "build/lib/libcapi.so")
	return s.sealed()
}

// twoThousand is a large project: 24 libraries, four programs.
func twoThousand() *Graph {
	s := newSketch()
	archs := []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
	var libs, objs, opaque []string
	for i := range 24 {
		s.target("library", fmt.Sprintf("kernels%02d", i))
		var mine []string
		for j := range 80 {
			mode := "lto"
			if j%10 == 9 && i%3 == 0 {
				mode = "rdc"
			}
			o := s.compile(fmt.Sprintf("src/kernels%02d/part%03d.cu", i, j), mode, archs...)
			mine = append(mine, o)
			if mode == "rdc" {
				opaque = append(opaque, o)
			}
		}
		objs = append(objs, mine...)
		libs = append(libs, fmt.Sprintf("build/lib/libkernels%02d.a", i))
		s.action(Archive, path.Base(libs[i]), libs[i], mine...)
	}
	for i := range 4 {
		s.target("executable", fmt.Sprintf("app%d", i))
		use, in := libs[i*6:i*6+6], objs[i*480:i*480+480]
		var mine []string
		for j := range 12 {
			mine = append(mine, s.compile(fmt.Sprintf("apps/app%d/host%02d.cpp", i, j), ""))
		}
		d := s.action(DeviceLink, s.t.Name, fmt.Sprintf("build/obj/app%d.dlink.o", i), append(append([]string{}, in...), "third_party/libvendor.a")...)
		d.Mode, d.Archs, d.Work.Link = "lto", archs, &Link{LTO: true, NonLTO: append(opaque, "third_party/libvendor.a"), Owners: map[string]string{"third_party/libvendor.a": "prebuilt.vendor"}}
		s.action(HostLink, "bin/"+s.t.Name, "build/bin/"+s.t.Name, append(append(append(mine, d.Outputs...), use...), "third_party/libvendor.a")...)
	}
	return s.sealed()
}

// twoPrograms link slices of one library: the one for sm_80 both, the one for sm_90 only the first.
func twoPrograms() *Graph {
	s := newSketch()
	s.target("library", "one")
	o := s.compile("src/a.cu", "rdc", "sm_80", "sm_90")
	lib := "build/lib/libone.a"
	s.action(Archive, "libone.a", lib, o)
	var slices []string
	for _, name := range []string{"first", "second"} {
		s.target("executable", name)
		if name == "first" {
			for _, arch := range []string{"sm_80", "sm_90"} {
				slice := s.action(Slice, "lib/libone.a", "build/.kbuild/parts/slice/"+arch+"/libone.a", lib)
				slice.Intermediate, slice.Archs = true, []string{arch}
				slices = append(slices, slice.Outputs[0])
			}
		} else {
			slices = slices[:1]
		}
		for _, in := range slices {
			s.action(NVLink, name, "build/obj/"+name+"/"+path.Base(path.Dir(in))+".cubin", in)
		}
	}
	return s.sealed()
}

// hostile has names that break careless quoting in each format.
func hostile() *Graph {
	s := newSketch()
	s.target("library", `q"uo<te>&'s \n`)
	o := s.compile("src/größe 矢量 #1;\"x\"\\N.cu", "rdc", "sm_80")
	s.compile("src/tab\tnew\nline\x00bad\xff`tick`.cu", "rdc", "sm_80")
	s.compile("src/"+strings.Repeat("very_long_name_", 12)+".cu", "rdc", "sm_80")
	s.action(Archive, "end", "build/lib/end.a", o)
	return s.sealed()
}

func render(t *testing.T, g *Graph, format string, opts DrawOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	write := map[string]func() error{
		"dot":     func() error { return g.WriteDOT(&b, opts) },
		"mermaid": func() error { return g.WriteMermaid(&b, opts) },
		"json":    func() error { return g.WriteJSON(&b, opts) },
	}[format]
	if err := write(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDrawingGoldens(t *testing.T) {
	for _, tc := range []struct {
		name  string
		graph *Graph
		opts  DrawOptions
	}{
		{name: "partial_lto", graph: partialLTO()},
		{name: "partial_lto_collapsed", graph: partialLTO(), opts: DrawOptions{Collapse: true}},
		{name: "partial_lto_targets", graph: partialLTO(), opts: DrawOptions{Targets: true}},
		{name: "two_programs", graph: twoPrograms()},
		{name: "hostile", graph: hostile()},
		{name: "empty", graph: &Graph{}},
	} {
		for _, format := range []string{"dot", "mermaid", "json"} {
			t.Run(tc.name+"."+format, func(t *testing.T) {
				golden(t, tc.name+"."+format, render(t, tc.graph, format, tc.opts))
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "draw", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestDotAccepts holds the DOT against the real Graphviz, which must render it without a word.
func TestDotAccepts(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		if os.Getenv("KBUILD_REQUIRE_TOOLS") == "1" {
			t.Fatal("KBUILD_REQUIRE_TOOLS=1, and there is no dot in PATH")
		}
		t.Skip("no dot in PATH (Graphviz)")
	}
	for _, tc := range []struct {
		name  string
		graph *Graph
		opts  DrawOptions
		want  []string // in the picture
	}{
		{name: "partial_lto", graph: partialLTO(), want: []string{"library.solver", "no LTO", "libspectra.a", "partial LTO"}},
		{name: "ten_targets", graph: tenTargets(), want: []string{"gemm:dtype=f16,tile=64", "libvendor.so"}},
		{name: "two_thousand_collapsed", graph: twoThousand(), opts: DrawOptions{Collapse: true}, want: []string{"compile ×80", "2000 actions"}},
		{name: "two_thousand_targets", graph: twoThousand(), opts: DrawOptions{Targets: true}, want: []string{"library.kernels23", "executable.app0", "2000 actions in 28 targets"}},
		{name: "hostile", graph: hostile(), want: []string{">src/größe 矢量 #1;&quot;x&quot;\\N.cu<"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr, svg bytes.Buffer
			text := render(t, tc.graph, "dot", tc.opts)
			keepPicture(t, dot, tc.name, text)
			cmd := exec.Command(dot, "-Tsvg")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &svg, &stderr
			if err := cmd.Run(); err != nil || stderr.Len() > 0 {
				t.Fatalf("dot: %v\n%s", err, stderr.String())
			}
			plain := strings.NewReplacer("&#160;", " ", "&#45;", "-", "\u200b", "", "&#8203;", "").Replace(svg.String())
			for _, want := range tc.want {
				if !strings.Contains(plain, want) {
					t.Errorf("the picture does not show %q", want)
				}
			}
		})
	}
}

// keepPicture saves a PNG under KBUILD_PICTURES, for looking at.
func keepPicture(t *testing.T, dot, name string, text []byte) {
	dir := os.Getenv("KBUILD_PICTURES")
	if dir == "" {
		return
	}
	cmd := exec.Command(dot, "-Tpng", "-o", filepath.Join(dir, name+".png"))
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("dot -Tpng: %v\n%s", err, out)
	}
}

func TestDrawWantIsAClosure(t *testing.T) {
	g := tenTargets()
	want, _ := g.Select([]string{"tool"})
	text := string(render(t, g, "dot", DrawOptions{Want: want}))
	for label, shown := range map[string]bool{"executable.tool": true, "library.capi": true, "library.fft": false, "executable.bench": false} {
		if strings.Contains(text, label) != shown {
			t.Errorf("%s shown: %v, want %v", label, !shown, shown)
		}
	}
}

func TestDrawSuggestsCollapse(t *testing.T) {
	g := twoThousand()
	for format, comment := range map[string]string{"dot": "// ", "mermaid": "%% "} {
		if text := render(t, g, format, DrawOptions{}); !bytes.HasPrefix(text, []byte(comment+"2001 nodes: `kbuild graph --collapse`")) {
			t.Errorf("%s begins with %q", format, bytes.SplitN(text, []byte("\n"), 2)[0])
		}
		if text := render(t, g, format, DrawOptions{Collapse: true}); bytes.HasPrefix(text, []byte(comment)) {
			t.Errorf("a collapsed %s has a comment", format)
		}
	}
}

// TestJSONEdgesResolve checks the promise of WriteJSON: every end of an edge is there to look up.
func TestJSONEdgesResolve(t *testing.T) {
	for _, opts := range []DrawOptions{{}, {Collapse: true}, {Want: []ActionID{4}}} {
		var doc jsonGraph
		if err := json.Unmarshal(render(t, tenTargets(), "json", opts), &doc); err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, a := range doc.Actions {
			known[fmt.Sprintf("a%d", a.ID)] = !opts.Collapse
		}
		for _, g := range doc.Groups {
			known[g.ID] = true
		}
		for _, e := range doc.Edges {
			if !known[e.To] || !known[e.From] && !strings.HasPrefix(e.From, "file:") {
				t.Errorf("%+v: edge %s -> %s leads nowhere", opts, e.From, e.To)
			}
		}
		if doc.Schema != 1 || len(doc.Edges) == 0 {
			t.Errorf("%+v: schema %d, %d edges", opts, doc.Schema, len(doc.Edges))
		}
	}
}
