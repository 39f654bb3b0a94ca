package main

import (
	"maps"
	"slices"
	"strings"
)

func (h *torture) editEnv() (edit, bool) {
	if h.chance(50) && len(h.env) > 0 {
		return edit{kind: envEdit, name: one(h, slices.Sorted(maps.Keys(h.env))...)}, true
	}
	switch h.rng.IntN(6) {
	case 0, 1:
		return edit{kind: envEdit, name: "CPATH", text: one(h, "sys", "first", "sys:first")}, true
	case 2:
		return edit{kind: envEdit, name: one(h, "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"), text: one(h, "-DX=1", "-DX=2", "-lineinfo", "-Isys")}, true
	case 3:
		return edit{kind: envEdit, name: "KBUILD_VAR_n", text: one(h, "2", "3")}, true
	case 4:
		return edit{kind: envEdit, name: "CPLUS_INCLUDE_PATH", text: "sys"}, true
	}
	return edit{kind: envEdit, name: "LIBRARY_PATH", text: one(h, "inc", "sys")}, true
}

// editOutput damages or removes what a build made.
func (h *torture) editOutput() (edit, bool) {
	if h.chance(30) {
		return edit{kind: removeEdit, name: one(h, buildTrees...)}, true
	}
	made := slices.DeleteFunc(slices.Sorted(maps.Keys(madeIn(h.dir))), func(name string) bool { return strings.Contains(name, "/gen/") })
	if len(made) == 0 {
		return edit{}, false
	}
	name := one(h, made...)
	switch h.rng.IntN(4) {
	case 0:
		return edit{kind: sneakEdit, name: name, text: "garbage"}, true
	case 1:
		return edit{kind: timeEdit, name: name, n: one(h, -1000, 1000)}, true
	case 2:
		return edit{kind: writeFileEdit, name: name, text: "garbage"}, true
	}
	return edit{kind: removeEdit, name: name}, true
}

// editRun runs kbuild in another way, or from now on.
func (h *torture) editRun() (edit, bool) {
	switch h.rng.IntN(10) {
	case 0, 1:
		if sources := h.sources(); len(sources) > 0 {
			name := one(h, sources...)
			return edit{kind: overtakeEdit, n: 1 + h.rng.IntN(one(h, 20, 60, 150)), name: name, text: h.good(name)}, true
		}
		return edit{}, false
	case 6:
		return edit{kind: checkoutEdit}, true
	case 2:
		return edit{kind: killEdit, n: 1 + h.rng.IntN(one(h, 20, 100, 400))}, true
	case 3:
		return edit{kind: buildEdit, text: one(h, "-v", "--no-cache", "library.dyn", "-j1", "-n", "--build-dir out", "--arch sm_80")}, true
	case 4:
		return edit{kind: buildEdit, text: "cache gc --max-age=1ns"}, true
	case 5:
		if *tortureReal {
			return edit{}, false
		}
		name := one(h, pretendTools...)
		if h.hcl["executable.app"]["host_lto"] != "" && h.chance(25) {
			name = "lto1"
		}
		return edit{kind: toolEdit, name: name, text: one(h, "1", "2")}, true
	}
	args := []string{"", "", "", "--arch sm_80", "--build-dir out", "--var n=5"}
	if !*tortureReal {
		args = append(args, "--no-split", "--arch sm_80,sm_90")
	}
	return edit{kind: argsEdit, text: one(h, args...)}, true
}
