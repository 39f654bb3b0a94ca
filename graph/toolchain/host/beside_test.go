package host

import (
	"strings"
	"testing"
)

func TestBesideOptions(t *testing.T) {
	for _, c := range []struct {
		family, options, files, unkept string
		folder                         bool
	}{
		{family: "gcc", options: "-g -O2 -Wall"},
		{family: "gcc", options: "-g -gsplit-dwarf", files: "o/a.cpp.dwo"},
		{family: "gcc", options: "-gsplit-dwarf", files: "o/a.cpp.dwo"},
		{family: "gcc", options: "-g -gsplit-dwarf -g0", files: "o/a.cpp.dwo"},
		{family: "gcc", options: "-g -gsplit-dwarf -gno-split-dwarf"},
		{family: "clang", options: "-gsplit-dwarf"},
		{family: "clang", options: "-g -gsplit-dwarf", files: "o/a.cpp.dwo"},
		{family: "clang", options: "-g -gsplit-dwarf -g0"},
		{family: "clang", options: "-g -gsplit-dwarf=single"},
		{family: "gcc", options: "--coverage -fstack-usage", files: "o/a.cpp.gcno o/a.cpp.su", folder: true},
		{family: "gcc", options: "-ftest-coverage", files: "o/a.cpp.gcno"},
		{family: "gcc", options: "-fprofile-generate", folder: true},
		{family: "gcc", options: "-fprofile-use=profiles", folder: true},
		{family: "gcc", options: "-fcallgraph-info", files: "o/a.cpp.ci"},
		{family: "gcc", options: "-fcallgraph-info=su,da", files: "o/a.cpp.ci"},
		{family: "clang", options: "-g -gsplit-dwarf=split", files: "o/a.cpp.dwo"},
		{family: "gcc", options: "-flto -fcallgraph-info=su", files: "o/a.cpp.ci", unkept: "-fcallgraph-info=su"},
		{family: "clang", options: "-ftime-trace", files: "o/a.cpp.json"},
		{family: "gcc", options: "-fopt-info-all=./b/info -fopt-info-vec -fopt-info=stderr", files: "b/info"},
		{family: "gcc", options: "-Wa,-adhln=list,--warn -Wa,-al -Wa,-march=x", files: "list"},
		{family: "gcc", options: "-Xassembler -al=list", files: "list"},
		{family: "gcc", options: "-Wa,--MD,a.d", unkept: "-Wa,--MD,a.d"},
		{family: "gcc", options: "-Xassembler -MD=a.d", unkept: "-MD=a.d"},
		{family: "gcc", options: "-dA -dP -da", unkept: "-da"},
		{family: "gcc", options: "-fdump-tree-all", unkept: "-fdump-tree-all"},
		{family: "gcc", options: "-fdump-tree-all=stderr"},
		{family: "gcc", options: "-save-temps=obj", unkept: "-save-temps=obj"},
		{family: "gcc", options: "-flto --coverage", files: "o/a.cpp.gcno", folder: true},
		{family: "gcc", options: "-flto -fstack-usage", files: "o/a.cpp.su", unkept: "-fstack-usage"},
	} {
		b := BesideObject(c.family, strings.Fields(c.options), "o/a.cpp.o")
		if strings.Join(b.Files, " ") != c.files || b.Unkept != c.unkept || b.Folder != c.folder || b.Named != (c.files != "" || c.folder) {
			t.Errorf("%s %s: %+v", c.family, c.options, b)
		}
	}
}

func TestBesideLink(t *testing.T) {
	for options, want := range map[string]string{
		"-s -Wl,--gc-sections -Wl,-Map=b/./m": "b/m",
		"-Wl,-Map,m":                          "m",
		"-Wl,--Map=m":                         "m",
		"-Wl,--Ma=m -Wl,-M":                   "m",
		"-Wl,-M=m":                            "m",
		"-Xlinker -Map -Xlinker m":            "m",
		"-Wl,-Map=-":                          "",
		"-Wl,-Map=maps/":                      "lost",
		"-Wl,--reproduce=r.tar":               "lost",
		"-flto -save-temps":                   "lost",
		"-fopt-info-inline=i":                 "i",
	} {
		b := BesideLink(strings.Fields(options))
		if b.Unkept != "" {
			b.Files = []string{"lost"}
		}
		if got := strings.Join(b.Files, " "); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}
