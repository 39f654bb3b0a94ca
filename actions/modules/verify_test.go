package modules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// module writes a manifest with artifacts of each kind beside it into a folder.
func module(t *testing.T, names ...string) (manifest string) {
	t.Helper()
	dir := t.TempDir()
	digest := strings.Repeat("0a", 32)
	m := modinfo.Manifest{
		Schema: modinfo.Schema, Kbuild: "kbuild-2", Module: "gemm", Variant: map[string]string{"tile": "64"}, Mode: "whole",
		Partitions:   []modinfo.Partition{{Name: "slow", Sources: []string{"a.cu"}, Mode: "rdc"}},
		Compiler:     modinfo.Tool{Name: "nvcc", Version: "11.8", Build: "11.8.89", Digest: digest},
		HostCompiler: modinfo.Tool{Name: "g++-11", Version: "11.3.0", Digest: digest}, InputDigest: digest,
	}
	for _, name := range names {
		file := testdata(t, name)
		if err := os.WriteFile(filepath.Join(dir, name), file, 0o666); err != nil {
			t.Fatal(err)
		}
		a, err := Describe(file)
		if err != nil {
			t.Fatal(err)
		}
		a.File = name
		if a.Kind == "ltoir" {
			a.LTOSymbols = &modinfo.LTOSymbols{Undefined: []modinfo.Symbol{{Name: "f", Demangled: "f"}}}
		}
		m.Artifacts = append(m.Artifacts, a)
	}
	m.Complete()
	manifest = filepath.Join(dir, "gemm.json")
	text := regexp.MustCompile(`: null`).ReplaceAll(m.Encode(), []byte(": []")) // lists that nothing was put into
	if err := os.WriteFile(manifest, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return manifest
}

func TestVerify(t *testing.T) {
	name := module(t, "11.8.sm_80.cubin", "11.8.compute_80.ptx", "11.8.fatbin", "11.8.lto_75.ltoir", "12.4.fatbin", "gfx906.hsaco", "kernels.hipfb")
	m, problems := Verify(name)
	if problems != nil {
		t.Fatalf("of a manifest that is right: %v", problems)
	}
	if got := strings.Join(m.Architectures, " "); got != "lto_75 sm_80 compute_80 lto_80 sm_90 gfx906 gfx90a:xnack-" {
		t.Errorf("architectures %s", got)
	}
}

// Each field in turn is taken away, made of another type and given another value. The message must
// name it.
func TestVerifyEveryField(t *testing.T) {
	name := module(t, "11.8.sm_80.cubin", "11.8.fatbin", "11.8.lto_75.ltoir")
	var whole any
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	fields := 0
	for _, path := range paths("", whole) {
		optional := []string{"partitions", "build", "lto_symbols"}
		field := path[strings.LastIndex(path, ".")+1:]
		broken := func(what string, change func(parent map[string]any)) {
			v := clone(t, whole)
			change(parentOf(v, path))
			problems := verifyText(t, name, v)
			if !slices.ContainsFunc(problems, func(p modinfo.Problem) bool { return p.Field == path && p.Message != "" }) {
				t.Errorf("%s %s: %v", path, what, problems)
			}
		}
		if !strings.HasSuffix(path, "]") && !slices.Contains(optional, field) && !strings.Contains(path, "variant.") {
			broken("is missing", func(parent map[string]any) { delete(parent, field) })
		}
		if !strings.HasSuffix(path, "]") {
			broken("is null", func(parent map[string]any) { parent[field] = nil })
			fields++
		}
	}
	if fields < 100 {
		t.Errorf("only %d fields were broken", fields)
	}
}

// paths are those of all fields and elements in a JSON value.
func paths(at string, v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			p := strings.TrimPrefix(at+"."+k, ".")
			out = append(append(out, p), paths(p, e)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, paths(at+"["+strconv.Itoa(i)+"]", e)...)
		}
	}
	slices.Sort(out)
	return out
}

// parentOf is the object that has the last field of a path.
func parentOf(v any, path string) map[string]any {
	steps := strings.Split(strings.ReplaceAll(path, "[", ".["), ".")
	for _, s := range steps[:len(steps)-1] {
		if index, ok := strings.CutPrefix(s, "["); ok {
			i, _ := strconv.Atoi(strings.TrimSuffix(index, "]"))
			v = v.([]any)[i]
		} else {
			v = v.(map[string]any)[s]
		}
	}
	return v.(map[string]any)
}

func clone(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	json.Unmarshal(text, &out)
	return out
}

// verifyText verifies v in place of the manifest.
func verifyText(t *testing.T, name string, v any) []modinfo.Problem {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(name), "broken.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	_, problems := Verify(file)
	return problems
}

// artifacts[0] is the fatbin, [1] the LTO-IR, [2] the cubin.
func TestVerifyValues(t *testing.T) {
	name := module(t, "11.8.sm_80.cubin", "11.8.fatbin", "11.8.lto_75.ltoir")
	var whole any
	text, _ := os.ReadFile(name)
	json.Unmarshal(text, &whole)
	tests := []struct {
		path  string
		value any
		want  string
	}{
		{"schema", 2, "schema is 2, and this kbuild knows 1: use a newer kbuild"},
		{"schema", 0, "schema is 0, which never was one; this kbuild knows 1"},
		{"schema", "1", `schema is the string "1", not a number`},
		{"mode", "zzz", `mode is "zzz", not one of whole, rdc, lto`},
		{"mode", "", `mode is "", not one of whole, rdc, lto`},
		{"partitions[0].mode", "fast", `partitions[0].mode is "fast", not one of whole, rdc, lto`},
		{"partitions[0].name", "", "partitions[0].name is empty"},
		{"module", "", "module is empty"},
		{"compiler.name", "", "compiler.name is empty"},
		{"host_compiler.name", "", "host_compiler.name is empty"},
		{"checksum", "x", "checksum is a field that schema 1 does not have"},
		{"options.fmad", 1, "options.fmad is the number 1, not true or false"},
		{"options.defines", "A=1", `options.defines is the string "A=1", not a list`},
		{"variant.tile", 64, "variant.tile is the number 64, not a string"},
		{"formats", []any{"cubin"}, "formats is [cubin], and the artifacts have [cubin fatbin ltoir]"},
		{"architectures", []any{"sm_80"}, "architectures is [sm_80], and the artifacts have [lto_75 sm_80 compute_80 sm_90]"},
		{"input_digest", "abc", `input_digest is "abc", not a SHA-256 of 64 hex digits`},
		{"artifacts[2].file", "../x.cubin", `artifacts[2].file is "../x.cubin", not a path below the manifest's folder`},
		{"artifacts[2].file", "11.8.fatbin", `artifacts[2].file is "11.8.fatbin", as artifacts[0].file is`},
		{"artifacts[2].file", "gone.cubin", "artifacts[2].file is gone.cubin, which cannot be read: no such file or directory"},
		{"artifacts[2].size", 5607, "artifacts[2].size is 5607, the file 11.8.sm_80.cubin has 5608"},
		{"artifacts[2].size", -1, "artifacts[2].size is -1, not a count"},
		{"artifacts[2].size", 5608.5, "artifacts[2].size is 5608.5, not a count"},
		{"artifacts[2].sha256", strings.Repeat("0", 64), "artifacts[2].sha256 is " + strings.Repeat("0", 64) + ", the file 11.8.sm_80.cubin has 63884e35"},
		{"artifacts[2].kind", "ptx", `artifacts[2].arch is "sm_80", which no ptx has`},
		{"artifacts[2].kind", "elf", `artifacts[2].kind is "elf", not one of bitcode, cubin, fatbin, hsaco, ltoir, ptx`},
		{"artifacts[0].arch", "sm_80", `artifacts[0].arch is "sm_80", which no fatbin has`},
		{"artifacts[0].images[0].arch", "compute_80", `artifacts[0].images[0].arch is "compute_80", which no cubin has`},
		{"artifacts[0].images[1].kernels", []any{}, "artifacts[0].images[1].kernels has 0 [], the file 11.8.fatbin has 3 [_Z4fillIfEvPT_i"},
		{"artifacts[2].kernels[2].name", "mixed2", "artifacts[2].kernels[2].name is mixed2, the file 11.8.sm_80.cubin has mixed"},
		{"artifacts[2].kernels[2].param_bytes", 48, "artifacts[2].kernels[2].param_bytes is 48, the file 11.8.sm_80.cubin has 49"},
		{"artifacts[2].kernels[2].params[1].offset", 4, "artifacts[2].kernels[2].params[1].offset is 4, the file 11.8.sm_80.cubin has 8"},
		{"artifacts[2].kernels[2].params[1].size", 4, "artifacts[2].kernels[2].params[1].size is 4, the file 11.8.sm_80.cubin has 16"},
		{"artifacts[2].kernels[2].params", []any{}, "artifacts[2].kernels[2].params has 0, the file 11.8.sm_80.cubin has 5"},
	}
	for _, tt := range tests {
		v := clone(t, whole)
		parentOf(v, tt.path)[tt.path[strings.LastIndex(tt.path, ".")+1:]] = tt.value
		problems := verifyText(t, name, v)
		if !slices.ContainsFunc(problems, func(p modinfo.Problem) bool { return strings.HasPrefix(p.String(), tt.want) }) {
			t.Errorf("%s = %v:\n got %v\nwant %s", tt.path, tt.value, problems, tt.want)
		}
	}
}

// Another file under the name of an artifact is told of in all that is unlike, and so is one that
// is nothing.
func TestVerifyFiles(t *testing.T) {
	name := module(t, "11.8.sm_80.cubin", "11.8.compute_80.ptx")
	replace := func(with []byte) string {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), "11.8.sm_80.cubin"), with, 0o666); err != nil {
			t.Fatal(err)
		}
		_, problems := Verify(name)
		var s []string
		for _, p := range problems {
			s = append(s, p.String())
		}
		return strings.Join(s, "\n")
	}
	for _, tt := range []struct {
		with []byte
		want []string
	}{
		{testdata(t, "12.4.sm_90a.cubin"), []string{"[1].size is 5608", "[1].sha256 is", "[1].arch is sm_80, the file 11.8.sm_80.cubin has sm_90a", "[1].kernels has 3"}},
		{testdata(t, "11.8.compute_80.ptx"), []string{"[1].kind is cubin, the file 11.8.sm_80.cubin has ptx", "[1].arch is sm_80, the file 11.8.sm_80.cubin has compute_80"}},
		{[]byte("gone"), []string{"[1].size is 5608, the file 11.8.sm_80.cubin has 4", "[1].sha256 is", "[1].kind is cubin, which the file 11.8.sm_80.cubin is not: it is no cubin"}},
	} {
		got := replace(tt.with)
		for _, want := range tt.want {
			if !strings.Contains(got, "artifacts"+want) {
				t.Errorf("want %s in\n%s", want, got)
			}
		}
	}
}

// A folder and a file that is not there are told of by what to do, and by what they are.
func TestVerifyNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ name, want string }{
		{dir, "is a folder; name the .json files in it"},
		{filepath.Join(dir, "gone.json"), "cannot be read: no such file or directory"},
	} {
		if _, problems := Verify(tt.name); len(problems) != 1 || problems[0].String() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, problems, tt.want)
		}
	}
}

func TestDecodeNoManifest(t *testing.T) {
	for text, want := range map[string]string{"": "is no JSON: EOF", "[]": "is no JSON object", "{} {}": "is more than one JSON value", "{}": "schema is missing"} {
		if _, problems := modinfo.Decode([]byte(text)); len(problems) != 1 || problems[0].String() != want {
			t.Errorf("%q: %v, want %s", text, problems, want)
		}
	}
}

func TestSameArch(t *testing.T) {
	for _, tt := range []struct {
		kind, given, found string
		want               bool
	}{
		{"cubin", "sm_90a", "sm_90a", true},
		{"cubin", "sm_90a", "sm_90", false},
		{"cubin", "sm_90", "sm_90a", false},
		{"cubin", "sm_100f", "sm_100", true},
		{"cubin", "sm_100", "sm_100f", false},
		{"ltoir", "lto_90a", "lto_90", true},
		{"ltoir", "lto_90", "lto_90a", false},
		{"ltoir", "lto_100f", "lto_100", true},
		{"ltoir", "lto_100f", "lto_100a", false},
		{"ptx", "compute_100f", "compute_100", true},
		{"ptx", "compute_100", "compute_100f", false},
		{"fatbin", "", "sm_80", false},
		{"bitcode", "gfx90a", "", true},
	} {
		if got := SameArch(tt.kind, tt.given, tt.found); got != tt.want {
			t.Errorf("%s for %s that says %q: %t", tt.kind, tt.given, tt.found, got)
		}
	}
}
