package manifest

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// Names of sources that no compiler, dependency file or manifest can have are refused with a
// sentence.
func TestNamesOfSources(t *testing.T) {
	const nfd, nfc = "a\u0308/e\u0301.cpp", "ä/é.cpp"
	files := func(names ...string) fstest.MapFS {
		fsys := fstest.MapFS{}
		for _, n := range names {
			fsys[n] = &fstest.MapFile{}
		}
		return fsys
	}
	tests := []struct {
		name    string
		sources string
		files   fstest.MapFS
		want    string // "" is no error
	}{
		{"a dash", `["-o.cpp"]`, files("-o.cpp"), "compilers take -o.cpp for an option"},
		{"a dash and a dot", `["./-o.cpp"]`, files("-o.cpp"), "compilers take -o.cpp for an option"},
		{"a dash from glob", `glob("*.cpp")`, files("-o.cpp"), "compilers take -o.cpp for an option"},
		{"a dash in a folder", `["src/-o.cpp"]`, files("src/-o.cpp"), ""},
		{"a blank", `["a b.cpp"]`, files("a b.cpp"), ""},
		{"a tab", `["a\tb.cpp"]`, files("a\tb.cpp"), `compilers cannot report a file with the name "a\tb.cpp"`},
		{"a newline", `glob("*.cpp")`, files("a\nb.cpp"), `compilers cannot report a file with the name "a\nb.cpp"`},
		{"composed", `["` + nfc + `"]`, files(nfc), ""},
		{"composed here", `["` + nfc + `"]`, files(nfd), "the name of ä/é.cpp is decomposed on disk (NFD, letter and accent apart): \"a\\u0308/e\\u0301.cpp\""},
		{"decomposed in both", `["` + nfd + `"]`, files(nfd), "is decomposed on disk"},
		{"a folder", `includes = ["` + path.Dir(nfc) + `", "none"]`, files(nfd, "x.cpp"), "the name of ä is decomposed on disk"},
		{"a composed folder", `includes = ["` + path.Dir(nfc) + `"]`, files(nfc, "x.cpp"), ""},
		{"decomposed from glob", `glob("*/*.cpp")`, files(nfd), "is decomposed on disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attributes := "sources = " + tt.sources
			if strings.HasPrefix(tt.sources, "includes") {
				attributes = tt.sources + "\n  sources = [\"x.cpp\"]"
			}
			tt.files[DefaultFile] = &fstest.MapFile{Data: []byte("executable \"x\" {\n  " + attributes + "\n}\n")}
			_, diags := Load(Options{Dir: t.TempDir(), FS: tt.files})
			switch {
			case tt.want == "" && len(diags) > 0:
				t.Error(diags)
			case tt.want != "" && (len(diags) != 1 || !strings.Contains(diags[0].Summary, tt.want) || diags[0].Pos.Line != 2):
				t.Errorf("%v, want %s", diags, tt.want)
			}
		})
	}
}
