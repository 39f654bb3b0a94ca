package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files in testdata were made from a.cu by nvcc 11.8:
//
//	mixed.o       -dc, lto_80, lto_90, sm_90, compute_90
//	whole.o       -c, sm_80
//	bare.fatbin   -fatbin -dc, lto_75, sm_80
//	final.fatbin  -fatbin, sm_80
//	packed.fatbin -fatbin -dc -Xfatbin -compress-all, sm_80
//	bare.ltoir    -dc --keep, lto_75
//	lines.o       -dc -lineinfo, sm_80, compute_80
//	libshared.so  -shared, sm_80, compute_80
//	lib.a         an object of sm_80 with a long name, a plain C object, mixed.o, whole.o
//
// and by nvcc 13.5:
//
//	zstd.fatbin   -fatbin -dc --compress-mode=size, sm_80, compute_80, sm_100f
//	lz4.fatbin    -fatbin -dc --compress-mode=speed, lto_80, sm_80, compute_80
//	none.fatbin   -fatbin -dc --compress-mode=none, sm_80, lto_90a, lto_100f
//	concat.fatbin -fatbin -dc -lineinfo --concat, compute_80, and as machine code 80, 90a, 100f, 103
//	concat.o      -dc --concat, sm_80, sm_90
//	specific.ltoir  -ltoir -dc, lto_90a
var files = []struct{ name, want string }{
	{"mixed.o", "object: (relocatable) lto_80 compute_90 lto_90 sm_90"},
	{"whole.o", "object: () sm_80"},
	{"bare.fatbin", "fatbin: (relocatable) lto_75 sm_80"},
	{"final.fatbin", "fatbin: () sm_80"},
	{"packed.fatbin", "fatbin: (relocatable) sm_80"},
	{"lib.a", "archive: a_member_with_a_rather_long_name.o(relocatable) sm_80; mixed.o(relocatable) lto_80 compute_90 lto_90 sm_90; whole.o() sm_80"},
	{"plain.o", "object: "},
	{"bare.ltoir", "LTO-IR: (relocatable) lto_75"},
	{"lines.o", "object: (relocatable) compute_80 sm_80"},
	{"zstd.fatbin", "fatbin: (relocatable) sm_100f compute_80 sm_80"},
	{"lz4.fatbin", "fatbin: (relocatable) compute_80 lto_80 sm_80"},
	{"none.fatbin", "fatbin: (relocatable) lto_100f sm_80 lto_90a"},
	{"concat.fatbin", "fatbin: (relocatable) sm_100f sm_103 compute_80 sm_80 sm_90a"},
	{"concat.o", "object: (relocatable) sm_80 sm_90"},
	{"specific.ltoir", "LTO-IR: (relocatable) lto_90a"},
	{"libshared.so", "shared library: () compute_80 sm_80"},
}

func describe(f File) string {
	var members []string
	for _, m := range f.Members {
		codes := map[string]bool{}
		var list []string
		for _, i := range m.Images {
			if c := i.String(); !codes[c] {
				codes[c] = true
				list = append(list, c)
			}
		}
		link := map[bool]string{true: "relocatable"}[m.Relocatable] + map[bool]string{true: ", of the new driver"}[m.NewDriver]
		members = append(members, fmt.Sprintf("%s(%s) %s", m.Name, link, strings.Join(sorted(list), " ")))
	}
	return f.Kind.String() + ": " + strings.Join(members, "; ")
}

// sorted orders by number, then kind as text, so that the table above is easy to read.
func sorted(list []string) []string {
	key := func(s string) string { k, n, _ := strings.Cut(s, "_"); return n + k }
	for i := range list {
		for j := i; j > 0 && key(list[j]) < key(list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

func TestReadFile(t *testing.T) {
	for _, tt := range slices.Concat(files, filesOfHIP) {
		f, err := ReadFile(filepath.Join("testdata", tt.name))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := describe(f); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// What nvcc noted beside the code comes out as well.
func TestNotes(t *testing.T) {
	images := map[string]Image{}
	for _, name := range []string{"mixed.o", "lines.o", "libshared.so", "concat.fatbin"} {
		f, err := ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Members[0].Images {
			images[name+" "+i.Code().String()] = i
		}
	}
	tests := []struct {
		image, options, source string
		compressed             bool
	}{
		{"mixed.o lto_80", "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1", "", true},
		{"mixed.o compute_90", "--compile-only", "", true},
		{"lines.o sm_80", "", "a.cu", true},
		{"lines.o compute_80", "--compile-only --generate-line-info", "a.cu", true},
		{"libshared.so sm_80", "", "", false},
	}
	for _, tt := range tests {
		i := images[tt.image]
		if i.Options != tt.options || i.Source != tt.source || (i.Unpacked > 0) != tt.compressed || i.Size == 0 {
			t.Errorf("%s: %+v", tt.image, i)
		}
	}
	if i := images["concat.fatbin sm_90a"]; i.Source != "a.cu" || i.Unpacked < 1000 || i.Size != 0 {
		t.Errorf("packed together: %+v", i)
	}
	text, err := json.Marshal(images["lines.o sm_80"])
	if want := `{"code":"sm_80","kind":"SASS","size":1120,"unpacked":2880,"options":"","source":"a.cu"}`; err != nil || string(text) != want {
		t.Errorf("JSON %s, %v, want %s", text, err, want)
	}
}

func TestWrongFiles(t *testing.T) {
	whole, err := os.ReadFile("testdata/lib.a")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		data []byte
		want string
	}{
		"empty":     {nil, "too short"},
		"text":      {[]byte("hello, world"), "no object"},
		"thin":      {[]byte("!<thin>\nxxxxxxxx"), "thin archive"},
		"truncated": {whole[:len(whole)/2], "damaged|EOF|longer|fatbin|member"},
	}
	object, err := os.ReadFile("testdata/whole.o")
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, want string, data []byte) {
		tests[name] = struct {
			data []byte
			want string
		}{data, want}
	}
	add("a last member without its end", "damaged", append(bytes.Clone(whole), "/0     "...))
	add("a section compressed as a whole", "compressed as a whole", edit(t, object, func(h section) {
		h.set(0x08, h.get(0x08)|uint64(elf.SHF_COMPRESSED))
	}))
	add("a section longer than its file", "longer than its file", edit(t, object, func(h section) { h.set(0x20, 1<<40) }))
	add("a fatbin longer than its section", "longer than its section", edit(t, object, func(h section) {
		h.file[h.get(0x18)+8+4] = 1 // 4 GiB more
	}))
	add("an entry longer than its fatbin", "impossible sizes", edit(t, object, func(h section) {
		h.file[h.get(0x18)+16+8+4] = 1
	}))
	add("LTO-IR without its head", "cut short", []byte("\xed\x43\x4e\x7f\x01\x36"))
	for name, tt := range tests {
		_, err := Read(tt.data)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		ok := false
		for _, w := range strings.Split(tt.want, "|") {
			ok = ok || strings.Contains(err.Error(), w)
		}
		if !ok {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// section is a place in an ELF file: the header of .nv_fatbin.
type section struct {
	file []byte
	at   int
}

func (s section) get(field int) uint64    { return binary.LittleEndian.Uint64(s.file[s.at+field:]) }
func (s section) set(field int, v uint64) { binary.LittleEndian.PutUint64(s.file[s.at+field:], v) }

// edit changes a copy of a file at the header of its section .nv_fatbin.
func edit(t *testing.T, file []byte, change func(section)) []byte {
	t.Helper()
	e, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	headers := int(binary.LittleEndian.Uint64(file[0x28:]))
	for i, s := range e.Sections {
		if s.Name == ".nv_fatbin" {
			c := bytes.Clone(file)
			change(section{c, headers + 64*i})
			return c
		}
	}
	t.Fatal("no section .nv_fatbin")
	return nil
}

// Padding of any length is passed over; bytes that are no header are not.
func TestPadding(t *testing.T) {
	bare, err := os.ReadFile("testdata/bare.fatbin")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{8, 4096, 4104, 100000} {
		data := append(append(bytes.Clone(bare), make([]byte, n)...), bare...)
		if n%8 != 0 {
			t.Fatal("fatbins stand at multiples of 8")
		}
		images, err := readImages(data)
		if err != nil || len(images) != 4 {
			t.Errorf("%d zeros: %d images, %v", n, len(images), err)
		}
	}
	data := append(append(bytes.Clone(bare), make([]byte, 64)...), "no header, but bytes"...)
	if _, err := readImages(data); err == nil {
		t.Error("garbage after padding is no error")
	}
}

// FuzzRead: no bytes make the reader panic or run on for ever.
func FuzzRead(f *testing.F) {
	for _, tt := range slices.Concat(files, filesOfHIP) {
		data, err := os.ReadFile(filepath.Join("testdata", tt.name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		Read(data)
	})
}
