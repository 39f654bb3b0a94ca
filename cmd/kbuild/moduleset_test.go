package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// manifest reads one of the build tree.
func (e *example) manifest(name string) modinfo.Manifest {
	e.t.Helper()
	m, problems := modinfo.Decode(e.read(name))
	if problems != nil {
		e.t.Fatalf("%s: %v", name, problems)
	}
	return *m
}

// exported are the kernels of an artifact, from its symbol table or its text.
func (e *example) exported(file string) (names []string) {
	if strings.HasSuffix(file, ".ptx") {
		for _, m := range regexp.MustCompile(`(?m)^\.(?:visible|weak) \.entry (\w+)`).FindAllStringSubmatch(string(e.read(file)), -1) {
			names = append(names, m[1])
		}
	} else {
		out, _ := e.run("cuobjdump", "-symbols", file)
		for _, m := range regexp.MustCompile(`STT_FUNC +STB_(?:GLOBAL|WEAK) +STO_ENTRY +(\S+)`).FindAllStringSubmatch(out, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

// kernels are what a manifest says that its artifacts export.
func (e *example) kernels(manifest string) string {
	e.t.Helper()
	var list []string
	for _, a := range e.manifest(manifest).Artifacts {
		text, err := json.Marshal([]any{a.File, a.Kernels, a.Images, a.LTOSymbols})
		if err != nil {
			e.t.Fatal(err)
		}
		list = append(list, moduleID.ReplaceAllString(string(text), "<id>"))
	}
	return strings.Join(list, "\n")
}

func kernelNames(kernels []modinfo.Kernel) (names []string) {
	for _, k := range kernels {
		names = append(names, k.Name)
	}
	return names
}

// The matrix of the worked example: each instance has a manifest that tells what its artifacts export.
func TestRealModules(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	paths, _ := e.run("kbuild", "precompile", "gemm")
	var outputs, manifests []string
	for path := range strings.Lines(paths) {
		outputs = append(outputs, strings.TrimSpace(path))
		if strings.HasSuffix(path, ".json\n") {
			manifests = append(manifests, strings.TrimSpace(path))
		}
	}
	if len(manifests) != 5 || len(outputs) != 25 {
		t.Fatalf("%d files, %d of them manifests", len(outputs), len(manifests))
	}
	e.run(slices.Concat([]string{"kbuild", "precompile", "--verify"}, manifests)...)
	for _, name := range manifests {
		m := e.manifest(name)
		want := "gemm." + m.Variant["dtype"] + "." + m.Variant["tile"]
		if name != "build/modules/"+want+".json" || m.Compiler.Name != "nvcc" || len(m.Compiler.Digest) != 64 || len(m.HostCompiler.Digest) != 64 {
			t.Errorf("%s is of %v, %+v, %+v", name, m.Variant, m.Compiler, m.HostCompiler)
		}
		if bytes.Contains(e.read(name), []byte(e.dir)) {
			t.Errorf("%s names the folder of the project", name)
		}
		size := map[string]int{"f16": 2, "bf16": 2, "f32": 4}[m.Variant["dtype"]]
		for _, a := range m.Artifacts {
			file := filepath.Join("build/modules", a.File)
			if got := kernelNames(a.Kernels); !slices.Equal(got, e.exported(file)) {
				t.Errorf("%s exports %v, and the manifest says %v", file, e.exported(file), got)
			}
			wantLayout := map[string][]modinfo.Param{ // gemm, and fill by the size of its type
				"gemm": {{Index: 0, Size: 8}, {Index: 1, Offset: 8, Size: 8}, {Index: 2, Offset: 16, Size: 8}, {Index: 3, Offset: 24, Size: 16}, {Index: 4, Offset: 40, Size: 2}},
				"fill": {{Index: 0, Size: 8}, {Index: 1, Offset: 8, Size: size}, {Index: 2, Offset: 12, Size: 4}},
			}
			for _, k := range a.Kernels {
				plain := "fill"
				if k.Name == "gemm" {
					plain = "gemm"
				}
				last := wantLayout[plain][len(wantLayout[plain])-1]
				if !slices.Equal(k.Params, wantLayout[plain]) || k.ParamBytes != last.Offset+last.Size || !strings.Contains(k.Demangled, plain) {
					t.Errorf("%s: %+v", file, k)
				}
			}
		}
	}
	e.settledModules(outputs)
}

// settledModules is settled for `kbuild precompile gemm`: in another folder, with another cache and one process at a time, all is the same.
func (e *example) settledModules(outputs []string) {
	e.t.Helper()
	second := &example{t: e.t, dir: filepath.Join(e.t.TempDir(), "second"), path: e.path, env: append(slices.Clone(e.env), "KBUILD_CACHE_DIR="+e.t.TempDir())}
	copyTree(e.t, e.dir, second.dir)
	second.run("kbuild", "-q", "-j1", "precompile", "gemm")
	for _, o := range outputs {
		if !bytes.Equal(e.read(o), second.read(o)) {
			e.t.Errorf("%s is not the same in another folder", o)
		}
	}
	if c := second.kbuild("precompile", "gemm"); c.Up_to_date != c.Actions {
		e.t.Errorf("again: %+v", c)
	}
}

// A comment runs the preprocessor and the manifests. An edit of a header changes what the artifacts are made from, and so does an option.
func TestRealModuleInputs(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	const name = "build/modules/gemm.f32.64.json"
	precompile := func(what, kinds string, args ...string) modinfo.Manifest {
		t.Helper()
		if c := e.kbuild(slices.Concat([]string{"precompile", "gemm:dtype=f32,tile=64"}, args)...); c.Kinds != kinds {
			t.Errorf("%s runs %q", what, c.Kinds)
		}
		return e.manifest(name)
	}
	first := precompile("cold", "cicc 4, manifest 1, preprocess 4, ptxas 2")
	shape := string(e.read("src/shape.h"))
	e.write("src/shape.h", "// A shape.\n"+shape)
	comment := precompile("a comment", "manifest 1, preprocess 4")
	if comment.InputDigest == first.InputDigest || comment.Artifacts[0].SHA256 != first.Artifacts[0].SHA256 {
		t.Errorf("after a comment: %s, %s", comment.InputDigest, comment.Artifacts[0].SHA256)
	}
	e.write("src/shape.h", shape)
	if again := precompile("reverted", ""); again.InputDigest != first.InputDigest {
		t.Error("reverted, the digest of the inputs is another")
	}
	e.write("kernels.hcl", strings.Replace(string(e.read("kernels.hcl")), "GEMM_TILE  = matrix.tile", "GEMM_TILE  = matrix.tile\n    UNUSED = 1", 1))
	if option := precompile("a define that nothing uses", "manifest 1, preprocess 4"); option.InputDigest == first.InputDigest || option.Options.Defines[2] != "UNUSED=1" {
		t.Errorf("with another define: %+v", option.Options)
	}
}

// The other kinds of artifacts, and LTO-IR: what it brings, and whether it links.
func TestRealModuleKinds(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	e.run("kbuild", "-q", "precompile", "shipped", "linked", "fft", "scale", "alone")
	fatbin := e.manifest("build/modules/shipped.json").Artifacts[0]
	if fatbin.Kind != "fatbin" || len(fatbin.Images) != 3 {
		t.Fatalf("%+v", fatbin)
	}
	for i, arch := range []string{"sm_80", "compute_90", "sm_90"} { // in the order of the file
		if img := fatbin.Images[i]; img.Arch != arch || !slices.Equal(kernelNames(img.Kernels), []string{"_Z4fillIfEvPT_S0_i", "gemm"}) {
			t.Errorf("image %d: %+v", i, img)
		}
	}
	for _, a := range e.manifest("build/modules/linked.json").Artifacts {
		kernels := a.Kernels
		if a.Kind == "fatbin" {
			kernels = a.Images[0].Kernels
		}
		if !slices.Equal(kernelNames(kernels), []string{"_Z8callbackPf"}) || kernels[0].Demangled != "callback(float*)" {
			t.Errorf("%s: %+v", a.File, kernels)
		}
	}
	for _, a := range e.manifest("build/modules/fft.json").Artifacts {
		if a.Kind == "fatbin" && (a.Images[0].Kind != "ltoir" || a.Images[0].Kernels != nil) {
			t.Errorf("%+v", a)
		}
		if a.Kind != "ltoir" {
			continue
		}
		text, _ := json.Marshal(a.LTOSymbols)
		want := `{"kernels":[{"name":"_Z8callbackPf","demangled":"callback(float*)"}],"functions":[{"name":"_Z7half_off","demangled":"half_of(float)"}],` +
			`"variables":[],"undefined":[{"name":"_Z5scalef","demangled":"scale(float)"}]}`
		if string(text) != want {
			t.Errorf("LTO symbols\n got %s\nwant %s", text, want)
		}
	}
	if c := e.kbuild("fft", "--check-link", "sm_80,sm_90"); !strings.Contains(c.Kinds, "fatbinary 3") || !strings.Contains(c.Kinds, "nvlink 2") {
		t.Errorf("--check-link runs %q", c.Kinds)
	}
	if got := e.exported("build/.kbuild/check-link/modules/fft.sm_90.cubin"); !slices.Equal(got, []string{"_Z8callbackPf"}) {
		t.Errorf("what is linked for sm_90 exports %v", got)
	}
	if c := e.kbuild("fft", "--check-link", "sm_80,sm_90"); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
	out, err := e.command("kbuild", "alone", "--check-link", "sm_80").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "module.alone does not link for sm_80: nothing defines scale(float) (_Z5scalef); add the module that does to its deps") {
		t.Errorf("without what it needs: %v\n%s", err, out)
	}
}

// A module of callbacks has no kernel that reaches them; it is found all the same that what they want is missing, and that nothing is.
// What a dependency has and they do not use is not asked for.
func TestRealCheckLinkCallbacks(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	const want = "module.orphans does not link for sm_80: nothing defines scale(float) (_Z5scalef); add the module that does to its deps"
	for _, split := range [][]string{nil, {"--no-split"}} {
		out, err := e.command(slices.Concat([]string{"kbuild", "orphans", "--check-link", "sm_80"}, split)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("without what it needs, %v: %v\n%s", split, err, out)
		}
		e.write("src/scale.cu", "__device__ float nowhere(float);\n__device__ float scale(float x) { return 2 * x; }\n__device__ float unused(float x) { return nowhere(x); }\n")
		_, said := e.run(slices.Concat([]string{"kbuild", "--progress", "plain", "orphans_of_scale", "--check-link", "sm_80,sm_90"}, split)...)
		if strings.Contains(said, "partial LTO") {
			t.Errorf("what refers to the functions is heard of:\n%s", said)
		}
	}
	linked, _ := e.run("cuobjdump", "-symbols", "build/.kbuild/check-link/modules/orphans_of_scale.sm_90.cubin")
	for _, name := range []string{"thrice", "nothing", "_Z6squareIdET_S0_", "_Z5counti", "_Z4stopv", "_Z4morei"} {
		if !regexp.MustCompile(`STT_FUNC .* ` + name + `\n`).MatchString(linked) {
			t.Errorf("%s is not in what is linked:\n%s", name, linked)
		}
	}
}
