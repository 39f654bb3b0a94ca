package fatbin

import (
	"bytes"
	"strings"
	"testing"
)

func TestContents(t *testing.T) {
	contents, err := Contents(testdata(t, "bare.fatbin"))
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]string{"lto_75": "\xed\x43\x4e\x7f", "sm_80": "\x7fELF"}
	for _, c := range contents {
		if want := starts[c.Code().String()]; want == "" || !bytes.HasPrefix(c.Bytes, []byte(want)) {
			t.Errorf("%s starts with %q", c.Code(), c.Bytes[:min(8, len(c.Bytes))])
		}
	}
	if len(contents) != 2 {
		t.Errorf("%d images", len(contents))
	}
	if _, err := Contents([]byte("text")); err == nil {
		t.Error("text was taken for a fatbin")
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
	f.Add(testdata(f, "bare.fatbin"))
	f.Fuzz(func(t *testing.T, file []byte) {
		contents, err := Contents(file)
		for _, c := range contents {
			if err == nil && c.Unpacked > 0 && c.Bytes != nil && int64(len(c.Bytes)) != c.Unpacked {
				t.Errorf("%d bytes of %d", len(c.Bytes), c.Unpacked)
			}
		}
	})
}
