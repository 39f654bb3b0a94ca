package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample(v string, n int) project {
	found, err := variantsNamed([]string{v})
	if err != nil {
		panic(err)
	}
	return project{variant: found[0], archs: []string{"sm_70", "sm_90"}, sources: sourceNames[:n], ccbin: "g++-11"}
}

func TestSourcesOfVariants(t *testing.T) {
	for _, v := range variants {
		files, err := sample(v.name, len(sourceNames)).files()
		if err != nil {
			t.Fatal(err)
		}
		libraries := 0
		for _, s := range sourceNames {
			text := files["src/"+s+".cu"]
			if !strings.Contains(text, "int run_"+s+"(") || !strings.Contains(files["src/main.cpp"], "run_"+s+"(nullptr") {
				t.Errorf("%s: %s is not defined and called", v.name, s)
			}
			if strings.Contains(text, "<cub/") || strings.Contains(text, "<thrust/") {
				libraries++
			}
		}
		if (libraries > 0) != v.cub {
			t.Errorf("%s: %d sources include CUB or Thrust", v.name, libraries)
		}
	}
}

// Each edit must find its text, even in the smallest project, and those in a source keep the line
// numbers.
func TestEdits(t *testing.T) {
	for _, e := range []edit{commentEdit, lineEdit, sm90Edit, hostEdit} {
		p := sample("cub-lto", 2)
		before, _ := p.files()
		p.edits = []edit{e}
		after, err := p.files()
		if err != nil {
			t.Fatal(err)
		}
		if before[e.file] == after[e.file] {
			t.Errorf("%v changes nothing", e)
		}
		shifts := strings.Count(after[e.file], "\n") - strings.Count(before[e.file], "\n")
		if want := map[bool]int{true: 1}[e == lineEdit]; shifts != want {
			t.Errorf("%v adds %d lines, want %d", e, shifts, want)
		}
	}
}

func TestCommandLinesAgree(t *testing.T) {
	p := sample("lto", 2)
	ninja, manifest := p.ninja(), p.manifest()
	for _, want := range []string{
		"-dc --generate-code=arch=compute_70,code=lto_70 --generate-code=arch=compute_90,code=lto_90 ",
		"-dlink -dlto --generate-code=arch=compute_70,code=sm_70 --generate-code=arch=compute_90,code=sm_90 ",
		"build out/dlink.o: device_link out/math.o out/gemm.o\n",
	} {
		if !strings.Contains(ninja, want) {
			t.Errorf("build.ninja lacks %q:\n%s", want, ninja)
		}
	}
	for _, want := range []string{`code = ["sm_70", "sm_90"]`, `mode = "lto"`, `"src/gemm.cu",`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("kernels.hcl lacks %q:\n%s", want, manifest)
		}
	}
}

// Only what an edit changes may get a new time: ninja goes by it.
func TestWriteKeepsTimes(t *testing.T) {
	dir, old := t.TempDir(), time.Unix(1e9, 0)
	p := sample("rdc", 2)
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	files, _ := p.files()
	for name := range files {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	p.edits = []edit{hostEdit}
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if kept := info.ModTime().Equal(old); kept == (name == hostEdit.file) {
			t.Errorf("%s: time kept: %v", name, kept)
		}
	}
}

func TestScenariosNamed(t *testing.T) {
	got, err := scenariosNamed([]string{"touch", "add"})
	if err != nil || len(got) != 3 || got[0].name != "cold" || got[1].name != "add" || got[2].name != "touch" {
		t.Errorf("got %v, %v; want cold, add, touch", got, err)
	}
	if _, err := scenariosNamed([]string{"warm"}); err == nil {
		t.Error("an unknown scenario is taken")
	}
}

func TestArchitectures(t *testing.T) {
	l := &lane{options: &options{add: "sm_86"}, project: project{archs: []string{"sm_70", "sm_80", "sm_90"}}}
	l.addArch()
	if got := strings.Join(l.project.archs, " "); got != "sm_70 sm_80 sm_86 sm_90" {
		t.Errorf("after add: %s", got)
	}
	l.removeArch()
	if got := strings.Join(l.project.archs, " "); got != "sm_80 sm_86 sm_90" {
		t.Errorf("after remove: %s", got)
	}
}
