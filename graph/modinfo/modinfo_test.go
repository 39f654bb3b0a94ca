package modinfo

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var digest = strings.Repeat("0a", 32)

// sample is a manifest with a value in every field that has more than one form.
func sample() *Manifest {
	none := []string{}
	flags := Flags{NVCC: []string{"-lineinfo"}, CICC: none, PTXAS: none, NVLink: none, HIP: none, LLD: none, Host: none}
	kernel := Kernel{Name: "_Z4gemmPf", Demangled: "gemm(float*)", ParamBytes: 8, Params: []Param{{0, 0, 8, ""}}}
	m := &Manifest{
		Schema: Schema, Kbuild: "kbuild-4", Module: "gemm", Variant: map[string]string{"tile": "64", "dtype": "<f16>"}, Mode: "lto",
		Options:    Options{Std: "c++17", Opt: "3", Defines: []string{"N=1"}, Includes: none, ArchList: none, FMAD: true, MaxRegisters: 64, Flags: flags},
		Partitions: []Partition{{"slow", []string{"a.cu"}, "rdc", "c++17", "3", none, []string{"slow"}, flags}},
		Compiler:   Tool{"nvcc", "13.5", "13.5.37", digest}, HostCompiler: Tool{Name: "g++", Version: "12.2", Digest: digest}, InputDigest: digest,
		Artifacts: []Artifact{
			{File: "gemm.sm_90a.cubin", Kind: "cubin", Arch: "sm_90a", Size: 4096, SHA256: digest, Kernels: []Kernel{kernel}},
			{File: "gemm.fatbin", Kind: "fatbin", Size: 9000, SHA256: digest,
				Images: []Image{{"cubin", "sm_80", []Kernel{kernel}}, {"ptx", "compute_90", nil}}},
			{File: "gemm.lto_80.ltoir", Kind: "ltoir", Arch: "lto_80", Size: 70, SHA256: digest,
				LTOSymbols: &LTOSymbols{[]Symbol{{"k", "k"}}, []Symbol{}, []Symbol{}, []Symbol{{"f", "f"}}}},
		},
	}
	m.Complete()
	return m
}

func TestComplete(t *testing.T) {
	m := sample()
	if got := m.Artifacts[0].File; got != "gemm.fatbin" {
		t.Errorf("%s is the first artifact", got)
	}
	if got, want := strings.Join(m.Formats, " "), "cubin fatbin ltoir"; got != want {
		t.Errorf("formats %s, want %s", got, want)
	}
	if got, want := strings.Join(m.Architectures, " "), "sm_80 lto_80 compute_90 sm_90a"; got != want {
		t.Errorf("architectures %s, want %s", got, want)
	}
}

// What is written is read as it was, and written again as the same bytes.
func TestRoundTrip(t *testing.T) {
	text := sample().Encode()
	m, problems := Decode(text)
	if problems != nil {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(sample(), m); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(m.Encode(), text) {
		t.Error("another text")
	}
	if !bytes.Contains(text, []byte(`"<f16>"`)) {
		t.Errorf("names are escaped as in HTML:\n%s", text)
	}
}

// All that is wrong is said at once, by the place where it stands.
func TestDecodeProblems(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{`"schema": 1`, `"schema": 2`, "schema is 2, and this kbuild knows 1: use a newer kbuild"},
		{`"schema": 1`, `"schema": 0`, "schema is 0, which never was one; this kbuild knows 1"},
		{`"schema": 1`, `"schema": "1"`, `schema is the string "1", not a number`},
		{`"module": "gemm"`, `"module": ""`, "module is empty"},
		{`"module": "gemm"`, `"modul": "gemm"`, "module is missing; modul is a field that schema 1 does not have"},
		{`"tile": "64"`, `"tile": 64`, "variant.tile is the number 64, not a string"},
		{`"mode": "lto"`, `"mode": "LTO"`, `mode is "LTO", not one of whole, rdc, lto`},
		{`"fmad": true`, `"fmad": null`, "options.fmad is null, not true or false"},
		{`"max_registers": 64`, `"max_registers": -1`, "options.max_registers is -1, not a count"},
		{`"max_registers": 64`, `"max_registers": 1e3`, "options.max_registers is 1e3, not a count"},
		{`"includes": []`, `"includes": {}`, "options.includes is an object, not a list"},
		{`"mode": "rdc"`, `"mode": ""`, `partitions[0].mode is "", not one of whole, rdc, lto`},
		{`"input_digest": "0a`, `"input_digest": "0A`, `input_digest is "0A` + digest[2:] + `", not a SHA-256 of 64 hex digits`},
		{`"file": "gemm.fatbin"`, `"file": "../gemm.fatbin"`, `artifacts[0].file is "../gemm.fatbin", not a path below the manifest's folder`},
		{`"file": "gemm.fatbin"`, `"file": "/gemm.fatbin"`, `artifacts[0].file is "/gemm.fatbin", not a path below the manifest's folder`},
		{`"file": "gemm.lto_80.ltoir"`, `"file": "gemm.fatbin"`, `artifacts[1].file is "gemm.fatbin", as artifacts[0].file is`},
		{`"arch": "lto_80"`, `"arch": "sm_80"`, `artifacts[1].arch is "sm_80", which no ltoir has; ` +
			`architectures is [sm_80 lto_80 compute_90 sm_90a], and the artifacts have [sm_80 compute_90 sm_90a]`},
		{`"kind": "ltoir"`, `"kind": "elf"`, `artifacts[1].kind is "elf", not one of bitcode, cubin, fatbin, hsaco, ltoir, ptx; ` +
			`formats is [cubin fatbin ltoir], and the artifacts have [cubin elf fatbin]`},
		{`"arch": "compute_90"`, `"arch": "compute_80"`, "architectures is [sm_80 lto_80 compute_90 sm_90a], and the artifacts have [sm_80 compute_80 lto_80 sm_90a]"},
	}
	text := string(sample().Encode())
	for _, tt := range tests {
		if strings.Count(text, tt.old) == 0 {
			t.Fatalf("%s is not in the text", tt.old)
		}
		_, problems := Decode([]byte(strings.Replace(text, tt.old, tt.new, 1)))
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.new, s, tt.want)
		}
	}
}

// A text that was cut or changed anywhere is read, or refused; nothing worse.
func TestDecodeAnything(t *testing.T) {
	text := sample().Encode()
	for i := range text {
		if m, problems := Decode(text[:i]); m != nil || problems == nil {
			if strings.TrimSpace(string(text[i:])) != "" {
				t.Fatalf("the first %d bytes of %d are taken for a manifest", i, len(text))
			}
		}
		for _, b := range []byte(`"{[0x `) {
			changed := slices.Clone(text)
			changed[i] = b
			Decode(changed)
		}
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Artifact)
		want string
	}{
		{"the same", func(*Artifact) {}, ""},
		{"another size", func(a *Artifact) { a.Size = 1 }, "artifacts[0].size is 9000, the file gemm.fatbin has 1"},
		{"an image less", func(a *Artifact) { a.Images = a.Images[:1] }, "artifacts[0].images has 2, the file gemm.fatbin has 1"},
		{"no images", func(a *Artifact) { a.Images = nil }, "artifacts[0].images has 2, which the file gemm.fatbin does not show"},
		{"no architecture", func(a *Artifact) { a.Images[0].Arch = "" }, `artifacts[0].images[0].arch is sm_80, the file gemm.fatbin has ""`},
		{"another kernel", func(a *Artifact) { a.Images[0].Kernels[0].Name = "x" }, "artifacts[0].images[0].kernels[0].name is _Z4gemmPf, the file gemm.fatbin has x"},
		{"a kernel more", func(a *Artifact) { a.Images[0].Kernels = append(a.Images[0].Kernels, Kernel{Name: "y"}) },
			"artifacts[0].images[0].kernels has 1 [_Z4gemmPf], the file gemm.fatbin has 2 [_Z4gemmPf y]"},
		{"kernels where none are given", func(a *Artifact) { a.Images[1].Kernels = []Kernel{{Name: "y"}} },
			"artifacts[0].images[1].kernels is missing, the file gemm.fatbin has 1"},
		{"symbols, which no file tells", func(a *Artifact) { a.LTOSymbols = &LTOSymbols{} }, ""},
	}
	for _, tt := range tests {
		given, found := sample().Artifacts[0], sample().Artifacts[0]
		tt.edit(&found)
		var got []string
		for _, p := range Compare("artifacts[0]", given, found) {
			got = append(got, p.String())
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, s, tt.want)
		}
	}
}
