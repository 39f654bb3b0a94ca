package manifest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// project are the files that the test manifests name.
var project = []string{"data/small.bin",
	"tools/tables.py", "data/tables.json", "include/solver.h", "third_party/libspectra.a",
	"src/solver/cg.cu", "src/solver/gmres.cu", "src/solver/sort_keys.cu", "src/solver/sort_pairs.cu",
	"src/callbacks/fft.cu", "src/gemm.cu", "src/a.cu", "src/b.cu", "src/main.cpp", "src/util.c", "src/odd.txt",
	"src/über uns/ker nel.cu", "bench/main.cpp", "bench/suite.cu", ".git/hidden.cu", "src/.hidden.cu",
	"build/.kbuild/log", "build/gen/x/made.cu", "other/build/real.cu",
}

func files(manifest string) fstest.MapFS {
	m := fstest.MapFS{"kernels.hcl": {Data: []byte(manifest)}}
	for _, f := range project {
		m[f] = &fstest.MapFile{}
	}
	m["math/vec.cu"] = &fstest.MapFile{}
	m["math/kernels.hcl"] = &fstest.MapFile{Data: []byte("library \"vec\" {\n  sources = [\"vec.cu\"]\n}\n")}
	return m
}

// load loads text as the manifest of the test project and fails on any diagnostic.
func load(t *testing.T, manifest string, opts Options) *Project {
	t.Helper()
	p, diags := try(manifest, opts)
	if len(diags) > 0 {
		t.Fatalf("diagnostics:\n%s", rendered(diags))
	}
	return p
}

func try(manifest string, opts Options) (*Project, Diagnostics) {
	if opts.FS == nil {
		opts.FS = files(manifest)
	}
	opts.Dir = "/project"
	return Load(opts)
}

func rendered(ds Diagnostics) string {
	var b bytes.Buffer
	ds.Write(&b, false)
	return b.String()
}

func find(t *testing.T, p *Project, label string) *Target {
	t.Helper()
	for _, x := range p.Targets {
		if x.Label() == label {
			return x
		}
	}
	t.Fatalf("no target %s", label)
	return nil
}

func worked(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("testdata/worked/kernels.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// TestWorkedExample loads the manifest of the language's own page and compares the whole project
// with a golden.
func TestWorkedExample(t *testing.T) {
	p := load(t, worked(t), Options{})
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(written(tree), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/worked/project.json", string(got)+"\n")
}

// written drops what a golden need not show: zero values, and positions spelled out.
func written(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if line, ok := v["Line"]; ok && v["Column"] != nil {
			if line == 0.0 {
				return nil
			}
			return fmt.Sprintf("%v:%v:%v", v["File"], line, v["Column"])
		}
		for k, e := range v {
			if v[k] = written(e); v[k] == nil {
				delete(v, k)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = written(v[i])
		}
	case string, float64, bool:
		if v == "" || v == 0.0 || v == false {
			return nil
		}
	}
	return v
}

func TestFormatKeepsTheWorkedExample(t *testing.T) {
	src := worked(t)
	got, diags := Format([]byte(src), "kernels.hcl")
	if len(diags) > 0 {
		t.Fatal(rendered(diags))
	}
	if diff := cmp.Diff(src, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestFormat(t *testing.T) {
	got, _ := Format([]byte("library \"a\" {\nsources=[\"a.cu\"] # why\n  mode   = \"lto\"\n}\n"), "k.hcl")
	want := "library \"a\" {\n  sources = [\"a.cu\"] # why\n  mode    = \"lto\"\n}\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if got, diags := Format([]byte("library {"), "k.hcl"); got != nil || !diags.HasErrors() {
		t.Errorf("a broken file formats to %q, %v", got, diags)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites):\n%s", file, diff)
	}
}

// TestInvalid loads every testdata/invalid/*.hcl and compares what is said about it with the .txt
// beside it. Comments at the top of a manifest may hold options: "# profile: x", "# arch: a,b",
// "# var: n=v", "# env: n=v", "# version: 1.2", "# local: name = value" (kernels.local.hcl).
func TestInvalid(t *testing.T) {
	list, err := filepath.Glob("testdata/invalid/*.hcl")
	if err != nil || len(list) < 30 {
		t.Fatalf("%d manifests, %v", len(list), err)
	}
	for _, file := range list {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".hcl"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, diags := try("", headerOptions(string(src)))
			if len(diags) == 0 {
				t.Error("no diagnostic")
			}
			golden(t, strings.TrimSuffix(file, ".hcl")+".txt", rendered(diags))
		})
	}
}

func headerOptions(src string) Options {
	fsys := files(src)
	env := map[string]string{}
	opts := Options{FS: fsys, Vars: map[string]string{}, Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}
	for line := range strings.Lines(src) {
		rest, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(rest), ": ")
		name, val, _ := strings.Cut(value, "=")
		switch key {
		case "profile":
			opts.Profile = value
		case "arch":
			opts.Arch = strings.Split(value, ",")
		case "version":
			opts.Version = value
		case "var":
			opts.Vars[name] = val
		case "env":
			env[EnvPrefix+name] = val
			opts.Environ = append(opts.Environ, EnvPrefix+value)
		case "local":
			fsys[LocalFile] = &fstest.MapFile{Data: []byte(value + "\n")}
		case "nothing":
			delete(fsys, "kernels.hcl")
		}
	}
	return opts
}

func paths(t *Target) []string {
	var out []string
	for _, s := range t.Sources {
		out = append(out, s.Path)
	}
	return out
}

func codes(g Gencode) string {
	var out []string
	for _, c := range g.Code {
		out = append(out, c.String())
	}
	return strings.Join(out, " ")
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func labels(p *Project) []string {
	var out []string
	for _, x := range p.Targets {
		out = append(out, x.Label())
	}
	return slices.Clip(out)
}
