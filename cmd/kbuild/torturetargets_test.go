package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// editCode adds, removes and reorders architectures: of all, or of a target that nothing else is
// linked with.
func (h *torture) editCode() (edit, bool) {
	target := one(h, "gencode.all", "gencode.all", "executable.lto", "module.mod")
	switch {
	case target == "gencode.all":
		return edit{kind: setEdit, name: target + " code", text: h.code()}, true
	case h.hcl[target]["present"] == "":
		return edit{}, false
	}
	return edit{kind: setEdit, name: target + " code", text: one(h, "", h.code())}, true
}

// editTarget changes an attribute of a target.
func (h *torture) editTarget() (edit, bool) {
	targets := h.presentTargets("library", "executable", "module")
	if h.chance(10) { // a target comes or goes
		t := one(h, slices.Sorted(maps.Keys(h.hcl))...)
		if kind, _, _ := strings.Cut(t, "."); !slices.Contains([]string{"library", "module", "executable", "prebuilt"}, kind) || t == "executable.app" {
			return edit{}, false
		}
		return edit{kind: setEdit, name: t + " present", text: map[bool]string{true: "", false: "true"}[h.hcl[t]["present"] != ""]}, true
	}
	t := one(h, targets...)
	set := func(attribute string, values ...string) (edit, bool) {
		return edit{kind: setEdit, name: t + " " + attribute, text: one(h, values...)}, true
	}
	switch h.rng.IntN(14) {
	case 0, 1:
		return set("includes", `["first", "inc"]`, `["inc", "first"]`, `["inc"]`, `["first", "inc", "sys"]`, `[".", "inc"]`)
	case 2:
		return set("defines", "", "{ N = var.n }", "{ H0 = 7 }", "{ A = 1, B = null }", "{ USE_EXT = true }")
	case 3:
		flags := []string{"", `{ host = ["-Wall"] }`, `{ nvcc = ["-lineinfo"] }`, `{ nvcc = ["-DX"], host = ["-fno-inline"] }`, `{ ptxas = ["--warn-on-spills"] }`,
			`{ host = ["-iquote", "sys"] }`, `{ host = ["-w"] }`, `{ host = ["-isystem", "sys", "-w"] }`, `{ host = ["-std=c++17"] }`, `{ host = ["--std=c++14"] }`,
			`{ host = ["-Isys"] }`, `{ host = ["@cc.opts"] }`, `{ host = ["-g", "-gsplit-dwarf"] }`, `{ host = ["-fstack-usage"] }`,
			`{ link = ["-Wl,-Map=build/` + t + `.map"] }`, `{ host = ["-save-temps"] }`}
		if t == "executable.app" || !*tortureReal {
			flags = append(flags, `{ host = ["--coverage"], link = ["--coverage"] }`)
		}
		return set("flags", flags...)
	case 4:
		return set("opt", "", "0", "3")
	case 5:
		return set("debug", "", "true")
	case 6:
		if t == "executable.app" {
			return edit{}, false
		}
		return set("deps", "[generate.tables]", "[generate.tables]", "[]")
	case 7:
		if t != "library.dyn" {
			return edit{}, false
		}
		return set("type", "", `"shared"`)
	case 8:
		if t == "module.mod" {
			return edit{}, false
		}
		return set("host_lto", "", `"full"`)
	case 9:
		return set("std", "", `"c++17"`, `"c++14"`)
	}
	if _, cuda := cudaTargets[t]; !cuda {
		return edit{}, false
	}
	return h.editCUDATarget(t)
}

// editCUDATarget changes an attribute of device code.
func (h *torture) editCUDATarget(t string) (edit, bool) {
	set := func(attribute string, values ...string) (edit, bool) {
		return edit{kind: setEdit, name: t + " " + attribute, text: one(h, values...)}, true
	}
	switch h.rng.IntN(5) {
	case 0:
		if t == "module.mod" || *tortureReal && t != "library.two" {
			return edit{}, false
		}
		return set("mode", `"whole"`, `"rdc"`, `"lto"`)
	case 1:
		if *tortureReal { // objects of nvcc as one command tell of the folder
			return edit{}, false
		}
		return set("split", "", "false")
	case 2:
		return set("fast_math", "", "true")
	case 3:
		return set("max_registers", "", "32", "64")
	}
	if t != "module.mod" {
		return edit{}, false
	}
	if h.chance(20) {
		return set("embed", "", `{ symbol = "mods" }`)
	}
	if h.chance(40) {
		return set("matrix", "", `{ dtype = ["f16", "f32"] }`, `{ dtype = ["f16"] }`)
	}
	return set("emit", `["cubin"]`, `["fatbin", "ptx"]`, `["ptx"]`, `["cubin", "fatbin"]`)
}

// editLayout changes what in the manifest means nothing, or the values for this machine.
func (h *torture) editLayout() (edit, bool) {
	switch h.rng.IntN(4) {
	case 0:
		return edit{kind: setEdit, name: "layout order", text: one(h, "", "backwards")}, true
	case 1:
		return edit{kind: setEdit, name: "layout comment", text: one(h, "", "a comment", "another")}, true
	case 2:
		return edit{kind: removeEdit, name: "kernels.local.hcl"}, true
	}
	return edit{kind: writeFileEdit, name: "kernels.local.hcl", text: fmt.Sprintf("n = \"%d\"\n", h.rng.IntN(3))}, true
}
