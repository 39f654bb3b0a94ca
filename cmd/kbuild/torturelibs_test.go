package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Libraries that kbuild does not make: behind -l, and prebuilt ones with device code; profiles; and
// an embedded module.

// extLibs are the files that -lext may mean, by the folders in which it is looked for.
var extLibs = []string{"libs/libext.a", "first/libext.a", "first/libext.so", "libs/libext.so", "sys/libext.a"}

// prebuilts are archives of device code, and sharedPrebuilt is a library of host code.
var prebuilts = []string{"pre/libpre.a", "pre/libother.a"}

const sharedPrebuilt = "pre/libshared.so"

// prebuiltCodes are what a prebuilt archive may hold, as options of nvcc. The first holds what
// targets are compiled for.
func prebuiltCodes() [][]string {
	every := []string{"70", "75", "80", "86", "90"}
	if *tortureReal {
		every = []string{"75", "80", "86"}
	}
	var real, lto []string
	for _, cc := range every {
		real = append(real, "-gencode", fmt.Sprintf("arch=compute_%[1]s,code=sm_%[1]s", cc))
		lto = append(lto, "-gencode", fmt.Sprintf("arch=compute_%[1]s,code=lto_%[1]s", cc))
	}
	ptx := []string{"-gencode", "arch=compute_80,code=compute_80"}
	return [][]string{real, slices.Concat(ptx, real), slices.Concat(real, ptx), slices.Concat(real, lto), {"-gencode", "arch=compute_80,code=sm_80"}}
}

// makeLibrary compiles the text of e into the library that it names: host code, or device code with
// the nth of prebuiltCodes from 1.
func (h *torture) makeLibrary(e edit) {
	dir := filepath.Join(h.base, "library")
	defer os.RemoveAll(dir)
	os.Mkdir(dir, 0o777)
	source, commands := "lib.cpp", [][]string{{"g++", "-c", "-fPIC", "lib.cpp", "-o", "lib.o"}}
	if e.n > 0 {
		source, commands = "lib.cu", [][]string{slices.Concat([]string{"nvcc", "-dc"}, prebuiltCodes()[e.n-1], []string{"-o", "lib.o", "lib.cu"})}
	}
	if made := "made"; strings.HasSuffix(e.name, ".so") {
		commands = append(commands, []string{"g++", "-shared", "lib.o", "-o", made})
	} else {
		commands = append(commands, []string{"ar", "qcsD", made, "lib.o"})
	}
	os.WriteFile(filepath.Join(dir, source), []byte(e.text), 0o666)
	for _, argv := range commands {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { name, _, _ := strings.Cut(v, "="); _, set := h.env[name]; return set })
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("%s: %v\n%s", argv, err, out)
		}
	}
	name := filepath.Join(h.dir, e.name)
	os.RemoveAll(name)
	if err := os.Rename(filepath.Join(dir, "made"), name); err != nil {
		h.t.Fatal(err)
	}
}

func (h *torture) extLibrary(name string) edit {
	return edit{kind: libraryEdit, name: name, text: fmt.Sprintf("int ext() { return %d; }\n", h.rng.IntN(4))}
}

func (h *torture) prebuilt(name string, n int) edit {
	return edit{kind: libraryEdit, name: name, n: n, text: fmt.Sprintf("__global__ void k_pre(int *p) { p[0] = %d; }\nint pre() { return %d; }\n", h.rng.IntN(3), h.rng.IntN(3))}
}

// projectLibraries gives some programs libraries, a prebuilt, an embedded module, and optimisation
// across files. It gives the deps of the program.
func (h *torture) projectLibraries(do func(edit), deps string) string {
	set := func(name, value string) { do(edit{kind: setEdit, name: name, text: value}) }
	if h.chance(40) {
		do(h.extLibrary("libs/libext.a"))
		set("executable.app libs", `["ext"]`)
		set("executable.app lib_dirs", `["first", "libs"]`)
		set("executable.app defines", "{ N = var.n, USE_EXT = true }")
	}
	switch h.rng.IntN(10) {
	case 0:
		do(h.extLibrary(sharedPrebuilt))
		set("prebuilt.pre shared", `"`+sharedPrebuilt+`"`)
		set("prebuilt.pre present", "true")
		deps += ", prebuilt.pre"
	case 1, 2, 3:
		do(h.prebuilt(prebuilts[0], 1))
		set("prebuilt.pre archive", `"`+prebuilts[0]+`"`)
		set("prebuilt.pre lto", `"none"`)
		set("prebuilt.pre present", "true")
		set("executable.app gencode", "gencode.all")
		deps += ", prebuilt.pre"
	}
	if h.chance(25) {
		set("executable.app host_lto", `"full"`)
		set("library.dyn host_lto", one(h, `"full"`, "")) // not all of a program need have it
	}
	if h.hcl["module.mod"]["present"] != "" && h.chance(60) {
		set("module.mod embed", `{ symbol = "mods" }`)
		deps += ", module.mod"
	}
	return deps
}

// editLibrary changes a library that kbuild does not make, how it is found, or a profile.
func (h *torture) editLibrary() (edit, bool) {
	switch prebuilt := h.hcl["prebuilt.pre"] != nil; {
	case h.hcl["executable.app"]["lib_dirs"] != "" && h.chance(50):
		return h.editExtLibrary()
	case prebuilt && h.chance(70):
		return h.editPrebuilt()
	case *tortureReal: // gcc takes no profile that it has not written
		return edit{}, false
	}
	return h.editProfile()
}

func (h *torture) editExtLibrary() (edit, bool) {
	set := func(attribute string, values ...string) (edit, bool) {
		return edit{kind: setEdit, name: "executable.app " + attribute, text: one(h, values...)}, true
	}
	there := h.present(extLibs...)
	switch h.rng.IntN(7) {
	case 0:
		return set("lib_dirs", `["first", "libs"]`, `["libs", "first"]`, `["libs"]`)
	case 1:
		flags := []string{"", "", `{ link = ["-Lsys"] }`, `{ link = ["-Wl,-Lsys"] }`, `{ link = ["-Wl,-Map=build/app.map"] }`}
		if !*tortureReal { // what the compiler adds is there as a shared library alone
			flags = append(flags, `{ link = ["-Wl,-Bstatic"] }`)
		}
		return set("flags", flags...)
	case 2, 3:
		if name := one(h, extLibs...); slices.Contains(there, name) {
			return edit{kind: removeEdit, name: name}, true
		}
		fallthrough
	default:
		return h.extLibrary(one(h, extLibs...)), true
	}
}

// editPrebuilt makes an archive anew with other code, for other architectures too, takes another
// one, or none.
func (h *torture) editPrebuilt() (edit, bool) {
	if h.hcl["prebuilt.pre"]["shared"] != "" {
		if h.chance(20) {
			return edit{kind: removeEdit, name: sharedPrebuilt}, true
		}
		return h.extLibrary(sharedPrebuilt), true
	}
	name := one(h, prebuilts...)
	switch h.rng.IntN(8) {
	case 0:
		return edit{kind: removeEdit, name: name}, true
	case 1:
		return edit{kind: setEdit, name: "prebuilt.pre archive", text: `"` + name + `"`}, true
	case 2:
		return edit{kind: setEdit, name: "prebuilt.pre lto", text: one(h, "", `"none"`)}, true
	case 3:
		if len(h.present(prebuilts...)) < 2 {
			return edit{}, false
		}
		return edit{kind: linkEdit, name: prebuilts[1], text: filepath.Base(prebuilts[0])}, true
	case 4:
		return h.prebuilt(name, 1+h.rng.IntN(len(prebuiltCodes()))), true
	}
	return h.prebuilt(name, 1), true
}

// editProfile writes or removes the profile of a C++ source, by the name that gcc gives it in the
// folder of -fprofile-use=prof.
func (h *torture) editProfile() (edit, bool) {
	source, target := one(h, "main.cpp", "dyn/a.cpp"), "library.dyn"
	if source == "main.cpp" {
		target = "executable.app"
	}
	object := fmt.Sprintf("%s/%s/obj/%s/%s.gcda", h.dir, h.buildDir(), target, source)
	name := "prof/" + strings.ReplaceAll(object, "/", "#")
	if !strings.Contains(h.hcl[target]["flags"], "-fprofile-use") && h.chance(60) {
		return edit{kind: setEdit, name: target + " flags", text: `{ host = ["-fprofile-use=prof"] }`}, true
	}
	if len(h.present(name)) > 0 && h.chance(30) {
		return edit{kind: removeEdit, name: name}, true
	}
	return h.content(name, fmt.Sprintf("profile %d", h.rng.IntN(4))), true
}
