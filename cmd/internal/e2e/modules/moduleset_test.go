package modules_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// exported are the kernels of an artifact, from its symbol table or its text.
func (e *example) exported(file string) (names []string) {
	if strings.HasSuffix(file, ".ptx") {
		for _, m := range regexp.MustCompile(`(?m)^\.(?:visible|weak) \.entry (\w+)`).FindAllStringSubmatch(string(e.Read(file)), -1) {
			names = append(names, m[1])
		}
	} else {
		out, _ := e.Run("cuobjdump", "-symbols", file)
		for _, m := range regexp.MustCompile(`(?m)^(?:STT_FUNC +STB_(?:GLOBAL|WEAK) +STO_ENTRY|FUNC +(?:GLOBAL|WEAK) +\S+ +ENTRY) +(\S+)`).FindAllStringSubmatch(out, -1) { // 11.8, and 13
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

func kernelNames(kernels []modinfo.Kernel) (names []string) {
	for _, k := range kernels {
		names = append(names, k.Name)
	}
	return names
}

// The matrix of the worked example: each instance has a manifest that tells what its artifacts
// export.
func TestRealModules(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	paths, _ := e.Run("kbuild", "precompile", "gemm")
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
	e.Run(slices.Concat([]string{"kbuild", "precompile", "--verify"}, manifests)...)
	for _, name := range manifests {
		m := e.Manifest(name)
		want := "gemm." + m.Variant["dtype"] + "." + m.Variant["tile"]
		if name != "build/modules/"+want+".json" || m.Compiler.Name != "nvcc" || len(m.Compiler.Digest) != 64 || len(m.HostCompiler.Digest) != 64 {
			t.Errorf("%s is of %v, %+v, %+v", name, m.Variant, m.Compiler, m.HostCompiler)
		}
		if bytes.Contains(e.Read(name), []byte(e.Dir)) {
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

// settledModules is settled for `kbuild precompile gemm`: in another folder, with another cache and
// one process at a time, all files of a type are the same.
func (e *example) settledModules(outputs []string) {
	e.T.Helper()
	second := e.In(filepath.Join(e.T.TempDir(), "second"))
	second.Env = append(slices.Clone(e.Env), "KBUILD_CACHE_DIR="+e.T.TempDir())
	e2e.CopyTree(e.T, e.Dir, second.Dir)
	precompile := []string{"precompile", "gemm:dtype=bf16,tile=64", "gemm:dtype=bf16,tile=128"}
	second.Run(slices.Concat([]string{"kbuild", "-q", "-j1"}, precompile)...)
	outputs = slices.DeleteFunc(slices.Clone(outputs), func(o string) bool { return !strings.Contains(o, ".bf16.") })
	if len(outputs) != 10 {
		e.T.Fatalf("%d files are of bf16", len(outputs))
	}
	for _, o := range outputs {
		if !bytes.Equal(e.Read(o), second.Read(o)) {
			e.T.Errorf("%s is not the same in another folder", o)
		}
	}
	if c := second.Kbuild(precompile...); c.Up_to_date != c.Actions {
		e.T.Errorf("again: %+v", c)
	}
}

// ptxChecks is how often ptxas looks at PTX for n architectures from 90 on that is shipped without
// machine code beside it: 13.0 and newer do.
func ptxChecks(t *testing.T, n int) int {
	if tooltest.Toolkits(t)[0].Release < "13" {
		return 0
	}
	return n
}

// One more format of a module compiles nothing, but for a source that spells the architectures of
// its command; and each format is what nvcc makes by a command of its own.
func TestRealFormats(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "formats")
	if c := e.Kbuild(); !strings.HasPrefix(c.Kinds, fmt.Sprint("cicc 4, copy 8, manifest 1, preprocess 4, ptxas ", 4+ptxChecks(t, 2))) {
		t.Errorf("cubins and PTX run %s", c.Kinds)
	}
	e.Edit("kernels.hcl", `["cubin", "ptx"]`, `["cubin", "fatbin", "ptx"]`)
	if c := e.Kbuild(); c.Kinds != "cicc 2, fatbinary 2, manifest 1, preprocess 2, ptxas 2" {
		t.Errorf("fatbins besides run %s; want the passes of list.cu, for whose text nvcc spells other architectures", c.Kinds)
	}
	if c := e.Kbuild("--no-cache", "--build-dir", "cold"); !strings.HasPrefix(c.Kinds, "cicc 6, ") || !strings.HasSuffix(c.Kinds, fmt.Sprint("preprocess 6, ptxas ", 6+ptxChecks(t, 2))) {
		t.Errorf("all formats at once, without a cache, run %s", c.Kinds)
	}
	e.Kbuild("--no-split", "--build-dir", "plain")
	for _, file := range []string{"plain.sm_80.cubin", "plain.compute_90.ptx", "plain.fatbin", "list.sm_80.cubin", "list.sm_90.cubin", "list.compute_80.ptx", "list.fatbin"} {
		built, plain := "build/modules/m/"+file, "plain/modules/m/"+file
		if !bytes.Equal(e.Read(built), e.Read("cold/modules/m/"+file)) {
			t.Errorf("%s depends on what was built before", file)
		}
		same := bytes.Equal(e.Read(built), e.Read(plain))
		if !same && ptxChecks(t, 1) > 0 && !strings.HasSuffix(file, ".ptx") { // from 13 on a note in it has the options of ptxas, -v too
			same = e.DeviceCode(built) == e.DeviceCode(plain)
		}
		if !same {
			t.Errorf("%s is not nvcc's", file)
		}
	}
	digest := func(dir string) string { return e.Manifest(dir + "/modules/m.json").InputDigest }
	if digest("build") != digest("cold") {
		t.Error("what the files are made from depends on how")
	}
	e.Settled("build/modules/m/plain.sm_80.cubin", "build/modules/m.json")
}

// A comment runs the preprocessor and the manifests. An edit of a header changes what the artifacts
// are made from, and so does an option.
func TestRealModuleInputs(t *testing.T) {
	t.Parallel()
	e := realProject(t, "modules")
	const name = "build/modules/gemm.f32.64.json"
	precompile := func(what, kinds string, args ...string) modinfo.Manifest {
		t.Helper()
		if c := e.Kbuild(slices.Concat([]string{"precompile", "gemm:dtype=f32,tile=64"}, args)...); c.Kinds != kinds {
			t.Errorf("%s runs %q", what, c.Kinds)
		}
		return e.Manifest(name)
	}
	first := precompile("cold", fmt.Sprint("cicc 2, copy 4, manifest 1, preprocess 2, ptxas ", 2+ptxChecks(t, 1)))
	shape := string(e.Read("src/shape.h"))
	e.Write("src/shape.h", "// A shape.\n"+shape)
	comment := precompile("a comment", "manifest 1, preprocess 2")
	if comment.InputDigest == first.InputDigest || comment.Artifacts[0].SHA256 != first.Artifacts[0].SHA256 {
		t.Errorf("after a comment: %s, %s", comment.InputDigest, comment.Artifacts[0].SHA256)
	}
	e.Write("src/shape.h", shape)
	if again := precompile("reverted", ""); again.InputDigest != first.InputDigest {
		t.Error("reverted, the digest of the inputs is another")
	}
	e.Write("kernels.hcl", strings.Replace(string(e.Read("kernels.hcl")), "GEMM_TILE  = matrix.tile", "GEMM_TILE  = matrix.tile\n    UNUSED = 1", 1))
	if option := precompile("a define that nothing uses", "manifest 1, preprocess 2"); option.InputDigest == first.InputDigest || option.Options.Defines[2] != "UNUSED=1" {
		t.Errorf("with another define: %+v", option.Options)
	}
}

// The other kinds of artifacts, and LTO-IR: what it brings, and whether it links.
func TestRealModuleKinds(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "modules")
	e.Run("kbuild", "-q", "precompile", "shipped", "linked", "fft", "scale", "alone")
	fatbin := e.Manifest("build/modules/shipped.json").Artifacts[0]
	if fatbin.Kind != "fatbin" || len(fatbin.Images) != 3 {
		t.Fatalf("%+v", fatbin)
	}
	for i, arch := range []string{"sm_80", "compute_90", "sm_90"} { // in the order of the file
		if img := fatbin.Images[i]; img.Arch != arch || !slices.Equal(kernelNames(img.Kernels), []string{"_Z4fillIfEvPT_S0_i", "gemm"}) {
			t.Errorf("image %d: %+v", i, img)
		}
	}
	for _, a := range e.Manifest("build/modules/linked.json").Artifacts {
		kernels := a.Kernels
		if a.Kind == "fatbin" {
			kernels = a.Images[0].Kernels
		}
		if !slices.Equal(kernelNames(kernels), []string{"_Z8callbackPf"}) || kernels[0].Demangled != "callback(float*)" {
			t.Errorf("%s: %+v", a.File, kernels)
		}
	}
	for _, a := range e.Manifest("build/modules/fft.json").Artifacts {
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
	if c := e.Kbuild("fft", "--check-link", "sm_80,sm_90"); !strings.Contains(c.Kinds, "fatbinary 3") || !strings.Contains(c.Kinds, "nvlink 2") {
		t.Errorf("--check-link runs %q", c.Kinds)
	}
	if got := e.exported("build/.kbuild/check-link/modules/fft.sm_90.cubin"); !slices.Equal(got, []string{"_Z8callbackPf"}) {
		t.Errorf("what is linked for sm_90 exports %v", got)
	}
	if c := e.Kbuild("fft", "--check-link", "sm_80,sm_90"); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
	out, err := e.Command("kbuild", "alone", "--check-link", "sm_80").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "module.alone does not link for sm_80: nothing defines scale(float) (_Z5scalef); add the module that does to its deps") {
		t.Errorf("without what it needs: %v\n%s", err, out)
	}
}

// A module of callbacks has no kernel that reaches them; it is found all the same that what they
// want is missing, and that nothing is. What a dependency has and they do not use is not asked for.
func TestRealCheckLinkCallbacks(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "modules")
	const want = "module.orphans does not link for sm_80: nothing defines scale(float) (_Z5scalef); add the module that does to its deps"
	for _, split := range [][]string{nil, {"--no-split"}} {
		out, err := e.Command(slices.Concat([]string{"kbuild", "orphans", "--check-link", "sm_80"}, split)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("without what it needs, %v: %v\n%s", split, err, out)
		}
		e.Write("src/scale.cu", "__device__ float nowhere(float);\n__device__ float scale(float x) { return 2 * x; }\n__device__ float unused(float x) { return nowhere(x); }\n")
		_, printed := e.Run(slices.Concat([]string{"kbuild", "--progress", "plain", "orphans_of_scale", "--check-link", "sm_80,sm_90"}, split)...)
		if strings.Contains(printed, "partial LTO") {
			t.Errorf("what refers to the functions is heard of:\n%s", printed)
		}
	}
	linked, _ := e.Run("cuobjdump", "-symbols", "build/.kbuild/check-link/modules/orphans_of_scale.sm_90.cubin")
	for _, name := range []string{"thrice", "nothing", "_Z6squareIdET_S0_", "_Z5counti", "_Z4stopv", "_Z4morei"} {
		if !regexp.MustCompile(`(?m)^(?:STT_)?FUNC .* ` + name + `$`).MatchString(linked) {
			t.Errorf("%s is not in what is linked:\n%s", name, linked)
		}
	}
}
