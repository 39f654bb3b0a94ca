package modules_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// Tables of two modules in C and C++, in a program, a static and a shared library: what they say of
// each artifact, and its bytes.
func TestRealEmbed(t *testing.T) {
	t.Parallel()
	e := realProject(t, "embed")
	e.Share()
	e.Kbuild()
	printed, _ := e.Run("build/bin/app")
	const want = `minus.sm_80.cubin||ops/minus.cu|sm_80|2|80|good
plus.sm_80.cubin||ops/plus.cu|sm_80|2|80|good
minus.compute_80.ptx||ops/minus.cu|compute_80|3|80|good
plus.compute_80.ptx||ops/plus.cu|compute_80|3|80|good
scale.2.fatbin|by=2|scale.cu||1|0|good
scale.2.lto_80.ltoir|by=2|scale.cu|lto_80|4|80|good
scale.3.fatbin|by=3|scale.cu||1|0|good
scale.3.lto_80.ltoir|by=3|scale.cu|lto_80|4|80|good
`
	if printed != want {
		t.Errorf("the tables say\n%s", printed)
	}
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		name, _, _ := strings.Cut(line, "|")
		e.embeds("build/bin/app", name)
	}
	for _, f := range []string{"build/bin/app", "build/lib/libsh.so"} {
		if out, _ := e.Run("readelf", "--dynamic", "--wide", f); strings.Contains(out, "TEXTREL") {
			t.Errorf("%s has relocations in its text:\n%s", f, out)
		}
	}
	e.Settled("build/bin/app", "build/lib/libst.a")
}

// embeds checks that a program has the bytes of an artifact that it is asked for by name.
func (e *example) embeds(program, name string) {
	e.T.Helper()
	files, _ := filepath.Glob(filepath.Join(e.Dir, "build/modules", name))
	below, _ := filepath.Glob(filepath.Join(e.Dir, "build/modules/*/*", name))
	files = append(files, below...)
	if len(files) != 1 {
		e.T.Fatalf("%d files are called %s", len(files), name)
	}
	file, _ := filepath.Rel(e.Dir, files[0])
	if out, _ := e.Run(program, name); !bytes.Equal([]byte(out), e.Read(file)) {
		e.T.Errorf("%s holds %d bytes of %s, and not the %d of the file", program, len(out), name, len(e.Read(file)))
	}
}

// What is looked up in a table.
func TestRealEmbedFind(t *testing.T) {
	t.Parallel()
	e := realProject(t, "embed")
	e.Share()
	e.Kbuild("both", "fit")
	if out, _ := e.Run("build/bin/both"); out != `plus.compute_80.ptx
minus.sm_80.cubin
scale.3.lto_80.ltoir
none
plus.sm_80.cubin
plus.sm_80.cubin
plus.compute_80.ptx
none
scale.2.fatbin
` {
		t.Errorf("found:\n%s", out)
	}
	if out, _ := e.Run("build/bin/fit"); out != `50 fatbin
70 compute_70
75 compute_70
80 sm_80
86 sm_86
89 sm_86
90 sm_90a
100 compute_100f
103 compute_100f
120 compute_80
` {
		t.Errorf("for a GPU of each kind:\n%s", out)
	}
}

// An artifact that changes is embedded anew; one that does not is not. A static library has the
// table in it, for others to link.
func TestRealEmbedAgain(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "embed")
	e.Share()
	e.Kbuild()
	e.Edit("ops/plus.cu", "+= 1", "+= 7")
	e.Ran("an edit of one source", "archive 1, cicc 1, copy 2, embed 1, host-compile 1, link 3, manifest 1, preprocess 1, ptxas 1")
	e.embeds("build/bin/app", "plus.sm_80.cubin")
	e.Edit("ops/plus.cu", "}\n", "} // seven\n")
	e.Ran("a comment", "manifest 1, preprocess 1")
	e.Write("outside.c", "const void *all_ops(void);\nint main(void) { return all_ops() == 0; }\n")
	e.Run("g++", "-x", "c", "outside.c", "-x", "none", "build/lib/libst.a", "-o", "outside")
	e.Run("./outside")
}

// The name of the build tree goes through C and the assembler. (fatbinary refuses a quote, so these
// are modules without one.)
func TestRealEmbedQuotes(t *testing.T) {
	t.Parallel()
	e := realProject(t, "embed")
	e.Share()
	out := filepath.Join(t.TempDir(), `o'u"t\?`)
	e.Kbuild("--build-dir", out, "fit")
	ptx, err := os.ReadFile(filepath.Join(out, "modules/ops/ops/plus.compute_80.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	if printed, _ := e.Run(filepath.Join(out, "bin/fit"), "ops/plus.cu"); printed != string(ptx) {
		t.Errorf("the table holds %q", printed)
	}
}
