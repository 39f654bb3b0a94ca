package fatbin

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

func TestContents(t *testing.T) {
	starts := map[gencode.Kind]string{gencode.LTO: "\xed\x43\x4e\x7f", gencode.SASS: "\x7fELF", gencode.PTX: "\n\n"}
	for file, want := range map[string]string{"bare.fatbin": "lto_75 sm_80", "zstd.fatbin": "sm_80 compute_80 sm_100f", "lz4.fatbin": "lto_80 (scrambled) sm_80 compute_80",
		"none.fatbin": "lto_90a lto_100f sm_80", "concat.fatbin": "compute_80 sm_80 sm_90a sm_100f sm_103"} {
		contents, err := Contents(testdata(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		var got []string
		for _, c := range contents {
			got = append(got, c.Code().String())
			if c.Bytes == nil {
				got = append(got, "(scrambled)")
			} else if !bytes.HasPrefix(c.Bytes, []byte(starts[c.Kind])) {
				t.Errorf("%s: %s starts with %q", file, c.Code(), c.Bytes[:min(8, len(c.Bytes))])
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if _, err := Contents([]byte("text")); err == nil {
		t.Error("text was taken for a fatbin")
	}
}

// TestDamagedZstd changes the first packed entry of a fatbin: sizes that cannot be, and a stream
// that is cut or goes on too long.
func TestDamagedZstd(t *testing.T) {
	const entry = headerSize
	for name, damage := range map[string]func(entry []byte){
		"packed longer than it is": func(e []byte) { e[0x13] = 1 },
		"unpacked beyond any":      func(e []byte) { e[0x3f] = 1 },
		"unpacked shorter":         func(e []byte) { e[0x38]-- },
		"unpacked longer":          func(e []byte) { e[0x38]++ },
		"cut":                      func(e []byte) { e[0x10] -= 8 },
		"another method":           func(e []byte) { e[binary.LittleEndian.Uint32(e[4:])] ^= 1 },
	} {
		file := testdata(t, "zstd.fatbin")
		damage(file[entry:])
		if contents, err := Contents(file); err == nil {
			t.Errorf("%s: %d images", name, len(contents))
		}
	}
}

// TestDamagedConcat changes the entry of a fatbin that holds machine code of several architectures.
func TestDamagedConcat(t *testing.T) {
	whole := testdata(t, "concat.fatbin")
	at := bytes.Index(whole, []byte("\x00\x01\x01\x01")) // of kind 0x100
	const second = 0x48 + 0x48                           // record, behind the first and its file's name
	for name, damage := range map[string]func(entry []byte){
		"more records than there are": func(e []byte) { e[0x40]++ },
		"no end of records":           func(e []byte) { e[0x43] = 0xff },
		"no records":                  func(e []byte) { e[0x14] = 0 },
		"records beyond the header":   func(e []byte) { e[0x16] = 1 },
		"code longer than all":        func(e []byte) { e[second+0x0b] = 1 },
		"code of negative size":       func(e []byte) { e[second+0x0f] = 0xff },
		"code in another place":       func(e []byte) { e[second+4] += 8 },
	} {
		file := bytes.Clone(whole)
		damage(file[at:])
		if contents, err := Contents(file); err == nil {
			t.Errorf("%s: %d images", name, len(contents))
		}
	}
}

func TestUnpackLZ4(t *testing.T) {
	long := "\x1fa\x01\x00\xff\x00" // a, and 19+255 copies of it: the copy reaches into itself
	tests := map[string]struct {
		in, want string
		size     int
	}{
		"literals":    {"\x30abc", "abc", 3},
		"a copy":      {"\x40abcd\x04\x00\x00", "abcdabcd", 8},
		"overlapping": {long, strings.Repeat("a", 275), 275},
		"nothing":     {"", "", 0},
	}
	for name, tt := range tests {
		got, err := unpackLZ4([]byte(tt.in), tt.size)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, in := range map[string]string{"short": "\x30ab", "before the start": "\x10a\x02\x00", "no distance": "\x10a\x00\x00",
		"half a distance": "\x10a\x01", "too much": "\x50abcde", "endless length": "\xf0\xff"} {
		if got, err := unpackLZ4([]byte(in), 4); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func FuzzContents(f *testing.F) {
	for _, name := range []string{"bare.fatbin", "zstd.fatbin", "lz4.fatbin", "concat.fatbin"} {
		f.Add(testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		contents, err := Contents(file)
		for _, c := range contents {
			if err == nil && c.Unpacked > 0 && c.Bytes != nil && int64(len(c.Bytes)) != c.Unpacked {
				t.Errorf("%d bytes of %d", len(c.Bytes), c.Unpacked)
			}
		}
	})
}
