package main

import (
	"archive/zip"
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPythonVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.0":                 "1.2.0",
		"1.2":                    "1.2",
		"v1.1.0-14-gabc123":      "1.2.0.dev14+v1.1.0.14.gabc123",
		"v1.1.0-dirty":           "1.2.0.dev0+v1.1.0.dirty",
		"abc123-dirty":           "1.2.0.dev0+abc123.dirty",
		"unknown":                "1.2.0.dev0+unknown",
		"release/v1.1.0-2-gab_c": "1.2.0.dev0+v1.1.0.2.gab.c",
	} {
		if got := pythonVersion(described, "1.2.0"); got != want {
			t.Errorf("%s is %s, want %s", described, got, want)
		}
	}
}

// The list of files has all of them with their digests, and comes last; programs can be run, and no
// time is in the archive.
func TestPack(t *testing.T) {
	w := &wheel{version: "1.2.0", platform: "x86_64"}
	data, err := w.build(fstest.MapFS{"kbuild": {Data: []byte("program")}}, fstest.MapFS{"kbuild-config.cmake": {}}, os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	last := z.File[len(z.File)-1]
	if r, err := last.Open(); err != nil || last.Name != "kbuild-1.2.0.dist-info/RECORD" {
		t.Fatal(last.Name, err)
	} else if _, err := record.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if !strings.Contains(record.String(), f.Name+",") {
			t.Errorf("%s is not in the list:\n%s", f.Name, record.String())
		}
		if f.Modified.Year() != 1980 {
			t.Errorf("%s has the time %s", f.Name, f.Modified)
		}
		if program := strings.Contains(f.Name, "/scripts/"); program != (f.Mode().Perm() == 0o755) {
			t.Errorf("%s has the mode %s", f.Name, f.Mode())
		}
	}
	if want := "kbuild-1.2.0.data/scripts/kbuild,sha256=ExDKLIky29EYZovZdEJVij4fVGteFcaWmd-9YCT1SNg,7\n"; !strings.Contains(record.String(), want) {
		t.Errorf("%s does not have %s", record.String(), want)
	}
}
