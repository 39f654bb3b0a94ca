package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a device link looks for beside its files, which stand in the build tree only while kbuild
// builds, sends no build the long way.
func TestQuickAfterDeviceLink(t *testing.T) {
	h := newTorture(t, tortureTools(t))
	for _, e := range []edit{
		{kind: writeFileEdit, name: "main.cpp", text: "int main() { return 0; }\n"},
		{kind: writeFileEdit, name: "two.cu", text: "__global__ void k(int *p) { p[0] = 1; }\n"},
		{kind: setEdit, name: "library.two sources", text: `["two.cu"]`},
		{kind: setEdit, name: "library.two code", text: `["sm_80"]`},
		{kind: setEdit, name: "library.two mode", text: `"rdc"`},
		{kind: setEdit, name: "library.two present", text: "true"},
		{kind: setEdit, name: "executable.app sources", text: `["main.cpp"]`},
		{kind: setEdit, name: "executable.app deps", text: "[library.two]"},
		{kind: setEdit, name: "executable.app present", text: "true"},
	} {
		h.apply(e)
	}
	long := func() bool {
		t.Helper()
		lock := filepath.Join(h.dir, "build/.kbuild/lock")
		was, _ := os.ReadFile(lock)
		if printed, err := exec.Command("kbuild", "-C", h.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, printed)
		}
		is, _ := os.ReadFile(lock)
		return string(was) != string(is)
	}
	for range 1000 { // until the clock of the file system has moved on
		if !long() {
			break
		}
	}
	h.apply(edit{kind: writeFileEdit, name: "two.cu", text: "__global__ void k(int *p) { p[0] = 2; }\n"})
	if !long() {
		t.Error("an edit is not seen")
	}
	if long() {
		t.Error("a build that finds nothing to do after a device link goes the long way")
	}
}
