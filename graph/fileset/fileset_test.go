package fileset

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestPack(t *testing.T) {
	files := []File{{"sub/b.cu", false, []byte("b\n")}, {"a b.h", false, nil}, {"run.sh", true, []byte("#!\n\n")}}
	list, pack := Pack(files)
	if want := "a b.h\nrun.sh\nsub/b.cu\n"; string(list) != want {
		t.Errorf("the list is %q", list)
	}
	if names, ok := ReadList(list); !ok || len(names) != 3 {
		t.Errorf("it is read as %q, %v", names, ok)
	}
	got, err := Unpack(pack)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.ContainsFunc(got, func(g File) bool {
			return g.Name == f.Name && g.Exec == f.Exec && bytes.Equal(g.Content, f.Content)
		}) {
			t.Errorf("%s is lost: %v", f.Name, got)
		}
	}
	for cut := range pack {
		if _, err := Unpack(pack[:cut]); err == nil {
			t.Errorf("%d of %d bytes are taken for a pack", cut, len(pack))
		}
	}
	if _, err := Unpack(append(pack, 'x')); err == nil {
		t.Error("a pack with more behind it is taken for one")
	}
}

func FuzzUnpack(f *testing.F) {
	_, pack := Pack([]File{{"a/b.cu", true, []byte("x")}})
	f.Add(pack)
	f.Add([]byte(filesMagic + "f 0 ../x\n\n"))
	f.Add([]byte(filesMagic + "f 9223372036854775807 x\nf 9223372036854775807 y\n\n"))
	f.Fuzz(func(t *testing.T, pack []byte) {
		files, err := Unpack(pack)
		if err != nil {
			return
		}
		for _, file := range files {
			if path.IsAbs(file.Name) || file.Name == ".." || strings.HasPrefix(file.Name, "../") || len(file.Content) > len(pack) {
				t.Errorf("%q", file.Name)
			}
		}
	})
}

func TestMatch(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.cu":        "a.cu b.cu",
		"**/*.cu":     "a.cu b.cu d/a.cu d/e/a.cu",
		"**":          "a.cu a.h b.cu d/a.cu d/e/a.cu d/e/a.h",
		"d/**":        "d/a.cu d/e/a.cu d/e/a.h",
		"d/*":         "d/a.cu",
		"*/*/*.h":     "d/e/a.h",
		"**/e/**/*.h": "d/e/a.h",
		"[ab].cu":     "a.cu b.cu",
		"a.?":         "a.h",
		"a.h":         "a.h",
		"[":           "",
	} {
		var got []string
		for _, name := range []string{"a.cu", "a.h", "b.cu", "d/a.cu", "d/e/a.cu", "d/e/a.h"} {
			if Match(pattern, name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s matches %q, want %s", pattern, got, want)
		}
	}
}
