package modules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// The files in testdata were made of kernels.cu and kernels.hip:
//
//	11.8.sm_80.cubin, 11.8.compute_80.ptx   nvcc 11.8 -cubin, -ptx
//	11.8.fatbin                             -fatbin: sm_80, compute_80 (packed), sm_90
//	11.8.lto_75.ltoir, linked.compute_75.ptx, linked.sm_80.cubin  -DLINKED -dc: code=lto_75, -ptx, -cubin
//	12.4.sm_90a.cubin                       nvcc 12.4 -DBIG -cubin
//	12.4.fatbin                             -fatbin -dc: sm_80, compute_80, lto_80 (scrambled)
//	13.5.sm_90a.cubin, 13.5.sm_100f.cubin   nvcc 13.5 -cubin
//	13.5.linked.sm_103f.cubin               nvlink 13.5 --arch=sm_103f of -dc code=sm_100f
//	13.5.lto_90a.ltoir                      -ltoir -dc
//	13.5.concat.fatbin                      -fatbin --concat: sm_80, sm_90a, compute_90a
//	kernels.hipfb                           hipcc 5.2 --genco: gfx906, gfx90a:xnack-; gfx906.hsaco is out of it
const (
	fill    = "_Z4fillIfEvPT_i(0+8 8+4)=12"
	mixed   = "mixed(0+8 8+16 24+2 32+16 48+1)=49"
	nothing = "_ZN5empty7nothingEv()=0"
	hip     = "_Z4fillIfEvPT_i(0+8 global_buffer 8+4 by_value)=12 _ZN5empty7nothingEv()=0 " +
		"mixed(0+8 global_buffer 8+16 by_value 24+2 by_value 26+1 by_value)=28"
	all = fill + " " + nothing + " " + mixed
)

var described = []struct{ file, want string }{
	{"11.8.sm_80.cubin", "cubin sm_80: " + all},
	{"linked.sm_80.cubin", "cubin sm_80: " + fill + " _Z6linkedPi(0+8)=8 " + nothing + " " + mixed}, // and twice, which is no kernel
	{"11.8.compute_80.ptx", "ptx compute_80: " + all},
	{"11.8.fatbin", "fatbin : [cubin sm_80: " + all + "] [ptx compute_80: " + all + "] [cubin sm_90: " + all + "]"},
	{"11.8.lto_75.ltoir", "ltoir lto_75: not told"},
	{"12.4.sm_90a.cubin", "cubin sm_90a: " + fill + " " + nothing + " big(0+20000 20000+8)=20008 " + mixed},
	{"12.4.fatbin", "fatbin : [cubin sm_80: " + all + "] [ptx compute_80: " + all + "] [ltoir lto_80: not told]"},
	{"13.5.sm_90a.cubin", "cubin sm_90a: " + all},
	{"13.5.sm_100f.cubin", "cubin sm_100f: " + all},
	{"13.5.linked.sm_103f.cubin", "cubin sm_103f: " + all},
	{"13.5.lto_90a.ltoir", "ltoir lto_90a: not told"},
	{"13.5.concat.fatbin", "fatbin : [ptx compute_90a: " + all + "] [cubin sm_80: " + all + "] [cubin sm_90a: " + all + "]"},
	{"gfx906.hsaco", "hsaco gfx906: " + hip},
	{"kernels.hipfb", "fatbin : [hsaco gfx906: " + hip + "] [hsaco gfx90a:xnack-: " + hip + "]"},
}

func TestDescribe(t *testing.T) {
	for _, tt := range described {
		a, err := Describe(testdata(t, tt.file))
		if got := spell(a); err != nil || got != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.file, err, got, tt.want)
		}
	}
}

func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// spell writes an artifact as kind, architecture and kernels: NAME(OFFSET+SIZE ...)=BYTES.
func spell(a modinfo.Artifact) string {
	if a.Images == nil {
		return a.Kind + " " + a.Arch + ": " + spellKernels(a.Kernels)
	}
	s := a.Kind + " " + a.Arch + ":"
	for _, i := range a.Images {
		s += " [" + i.Kind + " " + i.Arch + ": " + spellKernels(i.Kernels) + "]"
	}
	return s
}

func spellKernels(kernels []modinfo.Kernel) string {
	if kernels == nil {
		return "not told"
	}
	var list []string
	for _, k := range kernels {
		var params []string
		for i, p := range k.Params {
			if p.Index != i {
				params = append(params, fmt.Sprintf("index %d:", p.Index))
			}
			params = append(params, strings.TrimSpace(fmt.Sprintf("%d+%d %s", p.Offset, p.Size, p.ValueKind)))
		}
		list = append(list, fmt.Sprintf("%s(%s)=%d", k.Name, strings.Join(params, " "), k.ParamBytes))
	}
	return strings.Join(list, " ")
}

// Names come out as people wrote them, as c++filt has it.
func TestDemangled(t *testing.T) {
	a, err := Describe(testdata(t, "11.8.sm_80.cubin"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range a.Kernels {
		got = append(got, k.Demangled)
	}
	want := []string{"void fill<float>(float*, int)", "empty::nothing()", "mixed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLTOSymbols(t *testing.T) {
	s, err := LTOSymbols(testdata(t, "linked.compute_75.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(list []modinfo.Symbol) (out []string) {
		for _, s := range list {
			out = append(out, s.Demangled)
		}
		return out
	}
	got := [][]string{names(s.Kernels), names(s.Functions), names(s.Variables), names(s.Undefined)}
	want := [][]string{
		{"void fill<float>(float*, int)", "linked(int*)", "empty::nothing()", "mixed"},
		{"twice(int)"}, // own is static, inlined is in every file that wants it
		{"here", "table"},
		{"elsewhere(int)", "outside"}, // never is only called where nobody comes
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReferences(t *testing.T) {
	const text = ".version 7.8\n.target sm_90a, debug\n.address_size 64\n.extern .func want(.param .b32 a) ;\n.visible .func twice(.param .b32 a);\n" +
		".func own() { ret; }\n.visible .global .u32 here;\n.visible .entry k() { ret; }\n" +
		".visible .func  (.param .align 4 .b8 r[20]) twice(\n\t.param .b32 a\n)\n{ .reg .b32 %r; ret; }\n.weak .func stop()\n.noreturn // does not\n{ trap; }\n"
	want := `// References to functions.

.version 7.8
.target sm_90a
.address_size 64

.extern .func (.param .align 4 .b8 r[20]) twice(
	.param .b32 a
)
;
.extern .func stop()
.noreturn // does not
;

.entry $references(.param .u64 to)
{
	.reg .b64 %to, %at;
	ld.param.u64 %to, [to];
	mov.u64 %at, twice;
	st.u64 [%to], %at;
	mov.u64 %at, stop;
	st.u64 [%to], %at;
	ret;
}
`
	got, err := References([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	got, err = References([]byte(text), []string{"other", "want"})
	if want := ".weak .func want(.param .b32 a)\n{\n\tret;\n}\n"; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%v: no body for what is bound late:\n%s", err, got)
	}
	if _, err := References([]byte("no PTX"), nil); err == nil {
		t.Error("of what is no PTX there are references")
	}
}

// Forms of PTX that nvcc 11.8 does not write and others do.
func TestReadPTX(t *testing.T) {
	const head = ".version 8.4 .target sm_90a, debug .address_size 64\n"
	tests := map[string]struct{ text, want string }{
		"pointers":       {".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .u32 n) .maxntid 128, 1, 1 { ret; }", "k(0+8 8+4)=12"},
		"no parameters":  {".visible .entry k { ret; }", "k()=0"},
		"alignment":      {".visible .entry k(.param .u8 a, .param .align 32 .b8 b[3], .param .f16x2 c, .param .b128 d) { }", "k(0+1 32+3 36+4 48+16)=64"},
		"texture":        {".visible .entry k(.param .texref t) { }", "k()=0"},
		"comments":       {"/* .entry x() { */ // }\n.weak .entry k() { { .reg .b32 %r<2>; } }", "k()=0"},
		"not exported":   {".entry k() { }", ""},
		"strings":        {`.file 1 "a } .visible .entry x() {" .visible .entry k() { }`, "k()=0"},
		"tables":         {".visible .global .align 8 .u64 t[2] = {f, generic(g)};\n.visible .entry k() { }", "k()=0"},
		"function first": {".visible .func (.param .b32 r) f(.param .b32 a) .noreturn { ret; }\n.visible .entry k() { }", "k()=0"},
		"sections":       {".section .debug_str { info: .b8 1 }\n.visible .entry k() { }", "k()=0"},
	}
	for name, tt := range tests {
		p, err := readPTX([]byte(head + tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := spellKernels(p.kernels()); got != tt.want || p.arch != "compute_90a" {
			t.Errorf("%s: %s for %s, want %s", name, got, p.arch, tt.want)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	cubin, fat, bundle := testdata(t, "11.8.sm_80.cubin"), testdata(t, "11.8.fatbin"), testdata(t, "kernels.hipfb")
	host := append([]byte{}, cubin...)
	host[18] = 62
	tests := map[string]struct {
		file []byte
		want string
	}{
		"empty":          {nil, "it is no cubin"},
		"text":           {[]byte("hello"), "it is no cubin"},
		"host ELF":       {host, "EM_X86_64"},
		"short fatbin":   {fat[:2000], "longer than its section"},
		"short bundle":   {bundle[:60], "damaged"},
		"cut bundle":     {bundle[:9000], "damaged"},
		"packed bundle":  {[]byte("CCOB"), "--offload-compress"},
		"PTX, no target": {[]byte(".version 8.4"), "names no target"},
		"PTX, cut short": {[]byte(".version 8.4\n.target sm_90\n.visible .entry k( .param .u32 x"), "line 3: it is cut short"},
	}
	for name, tt := range tests {
		if _, err := Describe(tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Whatever the bytes are, they are described or refused, and twice the same way.
func FuzzDescribe(f *testing.F) {
	for _, tt := range described {
		f.Add(testdata(f, tt.file))
	}
	f.Add(testdata(f, "linked.compute_75.ptx"))
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := Describe(file)
		b, err2 := Describe(file)
		if diff := cmp.Diff(a, b); diff != "" || (err == nil) != (err2 == nil) {
			t.Error(diff)
		}
		if err == nil && a.Kind == "" {
			t.Error("neither described nor refused")
		}
		LTOSymbols(file)
	})
}

func FuzzMessagePack(f *testing.F) {
	f.Add([]byte("\x82\xa1a\x93\x01\xcd\x01\x00\xff\xa1b\xde\x00\x01\xa1c\xd1\xff\xfe"))
	f.Fuzz(func(t *testing.T, b []byte) { decodeMessagePack(b) })
}

func TestMessagePack(t *testing.T) {
	got, err := decodeMessagePack([]byte("\x82\xa1a\x93\x01\xcd\x01\x00\xff\xa1b\xde\x00\x01\xa1c\xd1\xff\xfe"))
	want := any(map[string]any{"a": []any{int64(1), int64(256), int64(-1)}, "b": map[string]any{"c": int64(-2)}})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
