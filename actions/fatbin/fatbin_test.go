package fatbin

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files in testdata were made from a.cu by nvcc 11.8:
//
//	mixed.o       -dc, lto_80, lto_90, sm_90, compute_90
//	whole.o       -c, sm_80
//	bare.fatbin   -fatbin -dc, lto_75, sm_80
//	lib.a         an object of sm_80 with a long name, a plain C object, mixed.o, whole.o
var files = []struct{ name, want string }{
	{"mixed.o", "object: (relocatable) lto_80 compute_90 lto_90 sm_90"},
	{"whole.o", "object: () sm_80"},
	{"bare.fatbin", "fatbin: () lto_75 sm_80"},
	{"lib.a", "archive: a_member_with_a_rather_long_name.o(relocatable) sm_80; mixed.o(relocatable) lto_80 compute_90 lto_90 sm_90; whole.o() sm_80"},
	{"plain.o", "object: "},
}

func describe(f File) string {
	var members []string
	for _, m := range f.Members {
		codes := map[string]bool{}
		var list []string
		for _, i := range m.Images {
			if c := i.Code().String(); !codes[c] {
				codes[c] = true
				list = append(list, c)
			}
		}
		link := map[bool]string{true: "relocatable"}[m.Relocatable]
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
	for _, tt := range files {
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

func TestOptions(t *testing.T) {
	f, err := ReadFile("testdata/mixed.o")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Members[0].Images {
		if strings.HasPrefix(i.Code().String(), "lto") && !strings.Contains(i.Options, "-ftz=0") {
			t.Errorf("%s: options %q", i.Code(), i.Options)
		}
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
	for name, tt := range tests {
		_, err := Read(bytes.NewReader(tt.data), int64(len(tt.data)))
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

// FuzzRead: no bytes make the reader panic or run on for ever.
func FuzzRead(f *testing.F) {
	for _, tt := range files {
		data, err := os.ReadFile(filepath.Join("testdata", tt.name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		Read(bytes.NewReader(data), int64(len(data)))
	})
}
