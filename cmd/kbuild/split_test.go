package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moduleIDs are the ids in an object or archive: nvcc's are made of the absolute path, kbuild's are not, and
// names of static variables hold them.
var moduleID = regexp.MustCompile(`_[0-9a-f]{8}_[0-9]+_[0-9A-Za-z_]*?_(?:cu|cpp)_[0-9A-Za-z_]{1,8}`)

// deviceCode is the machine code in a file, without what differs between two module ids: the ids
// and the hashes that names hold for them.
func (e *example) deviceCode(file string) string {
	out, _ := e.run("cuobjdump", "--dump-sass", file)
	out = moduleID.ReplaceAllString(out, "<id>")
	return regexp.MustCompile(`__nv_static_\d+_`).ReplaceAllString(out, "__nv_static_N_")
}

// TestSplitEqualsNVCC builds a project of many kinds of code in both ways.
func TestSplitEqualsNVCC(t *testing.T) {
	t.Parallel()
	e := realProject(t, "split")
	c := e.kbuild("-k0")
	if c.Ran != c.Actions {
		t.Fatalf("taken apart: %+v", c)
	}
	if w := e.kbuild("-k0", "--no-split", "--build-dir", "plain"); w.Ran != w.Actions || w.Actions >= c.Actions {
		t.Fatalf("in one piece: %+v", w)
	}
	var programs []string
	for _, dir := range []string{"bin", "modules"} {
		files, _ := filepath.Glob(filepath.Join(e.dir, "build", dir, "*"))
		for _, f := range files {
			programs = append(programs, dir+"/"+filepath.Base(f))
		}
	}
	if len(programs) < 18 {
		t.Errorf("only %q were built", programs)
	}
	for _, p := range programs {
		if strings.HasSuffix(p, ".ltoir") {
			continue // holds its module id, encrypted
		}
		if strings.HasSuffix(p, ".ptx") {
			ptx := func(dir string) string { return moduleID.ReplaceAllString(string(e.read(dir+"/"+p)), "<id>") }
			if ptx("build") != ptx("plain") {
				t.Errorf("%s differs from nvcc's", p)
			}
			continue
		}
		if split, whole := e.deviceCode("build/"+p), e.deviceCode("plain/"+p); split != whole {
			at := 0
			for at < min(len(split), len(whole)) && split[at] == whole[at] {
				at++
			}
			t.Errorf("the code of %s differs from nvcc's:\n%.300s\nwant:\n%.300s", p, split[max(0, at-100):], whole[max(0, at-100):])
		}
		if list := func(dir string) string {
			out, _ := e.run("cuobjdump", "-lelf", "-lptx", dir+"/"+p)
			return out
		}; !strings.HasSuffix(p, "bin") && list("build") != list("plain") {
			t.Errorf("%s holds other images than nvcc's:\n%s\nwant:\n%s", p, list("build"), list("plain"))
		}
	}
	for _, p := range []string{"rdc", "lto", "partial", "mixed", "whole", "lines", "debug"} {
		e.run("build/bin/" + p)
	}
	left, _ := filepath.Glob(filepath.Join(e.dir, "*"))
	var names []string
	for _, l := range left {
		names = append(names, filepath.Base(l))
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, ".int.") }) {
		t.Errorf("files were left in the project: %q", names)
	}
}

// TestSplitReproducible builds in two folders with caches of their own, at different widths: every file is the same.
func TestSplitReproducible(t *testing.T) {
	t.Parallel()
	a, b := realProject(t, "split"), realProject(t, "split")
	moved := filepath.Join(filepath.Dir(b.dir), "elsewhere", "and deeper")
	if err := os.MkdirAll(filepath.Dir(moved), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.dir, moved); err != nil {
		t.Fatal(err)
	}
	b.dir = moved
	a.kbuild("-j1")
	b.kbuild("-j7", "--no-cache")
	err := filepath.WalkDir(filepath.Join(a.dir, "build"), func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(a.dir, p)
		if err != nil || d.Name() == ".kbuild" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() && !bytes.Equal(a.read(rel), b.read(rel)) {
			t.Errorf("%s differs between two folders", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(a.read("build/bin/lines")); strings.Contains(text, filepath.Dir(a.dir)) {
		t.Error("the program names the folder that it was built in")
	}
}
