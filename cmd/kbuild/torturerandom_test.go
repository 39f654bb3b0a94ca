package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// one picks.
func one[T any](h *torture, list ...T) T { return list[h.rng.IntN(len(list))] }

// chance is true n times of 100.
func (h *torture) chance(n int) bool { return h.rng.IntN(100) < n }

func (h *torture) code() string {
	if *tortureReal {
		return one(h, `["sm_80"]`, `["sm_75"]`, `["sm_80", "sm_86"]`, `["sm_86", "sm_80"]`, `["sm_80", "compute_80"]`)
	}
	all := []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_90"}
	h.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	all = all[:one(h, 1, 2, 2, 3)]
	if h.chance(20) {
		all = slices.Insert(all, h.rng.IntN(len(all)+1), "compute_80")
	}
	return `["` + strings.Join(all, `", "`) + `"]`
}

// cudaTargets are those that have a code, with what a mode is for them.
var cudaTargets = map[string]string{"library.one": "whole", "library.two": "rdc", "executable.lto": "lto", "module.mod": "whole"}

// headers are the names that sources include, and headerDirs where they may be; include folders in their usual order.
var (
	headers    = []string{"h0.h", "h1.h", "sub/h2.h", "opt.h"}
	headerDirs = []string{".", "first", "inc", "sys"}
)

// project makes a random project: a few targets of all.
func (h *torture) project() (s step) {
	do := func(kind, name, text string) {
		s = append(s, edit{kind: kind, name: name, text: text})
		h.apply(s[len(s)-1])
	}
	set := func(target string, attributes ...string) {
		for i := 0; i < len(attributes); i += 2 {
			do(setEdit, target+" "+attributes[i], attributes[i+1])
		}
	}
	for _, name := range headers[:3] {
		do(writeFileEdit, "inc/"+name, h.header(name))
	}
	do(writeFileEdit, "first/.keep", "")
	do(writeFileEdit, "sys/opt.h", h.header("opt.h"))
	do(writeFileEdit, "data/in", "#define TABLE 1\n")
	do(writeFileEdit, "cc.opts", "-fno-inline\n")
	do(writeFileEdit, "tools/gen.sh", "cat data/in > $1\n")
	includes := []string{"includes", `["first", "inc"]`}
	set("gencode.all", "code", h.code(), "present", "true")
	set("generate.tables", "command", `["sh", "tools/gen.sh", self.outputs[0]]`, "inputs", `["data/in"]`, "outputs", `["tables.h"]`, "present", "true")
	shared := ""
	if h.chance(30) {
		shared = `"shared"`
	}
	do(writeFileEdit, "dyn/a.cpp", h.source("dyn/a.cpp"))
	set("library.dyn", append(includes, "sources", `glob("dyn/*.cpp")`, "type", shared, "deps", "[generate.tables]", "present", "true")...)
	do(writeFileEdit, "main.cpp", h.source("main.cpp"))
	deps := "library.dyn"
	targets := slices.Sorted(maps.Keys(cudaTargets))
	h.rng.Shuffle(len(targets), func(i, k int) { targets[i], targets[k] = targets[k], targets[i] })
	for _, target := range targets[:one(h, 1, 1, 1, 2)] {
		_, name, _ := strings.Cut(target, ".")
		do(writeFileEdit, name+".cu", h.source(name+".cu"))
		set(target, append(includes, "sources", fmt.Sprintf("[%q]", name+".cu"), "gencode", "gencode.all", "mode", fmt.Sprintf("%q", cudaTargets[target]),
			"deps", "[generate.tables]", "present", "true")...)
		switch target {
		case "library.one", "library.two":
			deps += ", " + target
		case "module.mod":
			set(target, "emit", one(h, `["cubin"]`, `["fatbin", "ptx"]`, `["ptx"]`))
		}
	}
	set("executable.app", append(includes, "sources", `["main.cpp"]`, "defines", "{ N = var.n }", "deps", "["+deps+"]", "present", "true")...)
	return s
}

func (h *torture) header(name string) string {
	macro := strings.ToUpper(strings.TrimSuffix(filepath.Base(name), ".h"))
	text := fmt.Sprintf("#undef %[1]s\n#define %[1]s %d\n", macro, h.rng.IntN(4))
	switch h.rng.IntN(12) {
	case 0:
		text += "// a comment\n"
	case 1:
		text += "#include \"h1.h\"\n"
	case 2:
		text += fmt.Sprintf("#if __CUDA_ARCH__ >= 860\n#undef %[1]s\n#define %[1]s %d\n#endif\n", macro, 4+h.rng.IntN(4))
	case 3:
		text += "#warning in " + name + "\n"
	}
	if h.chance(30) {
		text = strings.TrimSuffix(text, "\n") // the last byte is the value then
	}
	return "#pragma once\n" + text
}

// source is a source that the real compilers take too. The words of warnings are those of cmd/internal/pretend.
func (h *torture) source(name string) string {
	stem := strings.NewReplacer("/", "_", ".", "_").Replace(name)
	cuda := strings.HasSuffix(name, ".cu")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	value := fmt.Sprint(h.rng.IntN(4))
	for range h.rng.IntN(3) {
		header := one(h, headers[:3]...)
		line(one(h, "#include %q", "#include <%s>"), header)
		value = strings.ToUpper(strings.TrimSuffix(filepath.Base(header), ".h"))
	}
	if h.chance(30) {
		asked := one(h, `"opt.h"`, "<opt.h>", `"sub/opt.h"`)
		ask := "#if __has_include(" + asked + ")"
		ask = one(h, ask, ask, "#if \\\n  __has_include(/* here */ "+asked+")")
		line("%s\n#include %s\n#define HAVE 1\n#else\n#define HAVE 0\n#endif\nint have_%s() { return HAVE; }", ask, asked, stem)
	}
	if h.chance(25) {
		line("#include \"tables.h\"\nint table_%s() { return TABLE; }", stem)
	}
	switch h.rng.IntN(36) {
	case 0:
		line("#include \"missing.h\"")
	case 1:
		line("#warning in %s", name)
	case 2:
		line("int less_%s(int n) { unsigned unsigned_less = 3; return n > unsigned_less; }", stem)
	case 3:
		line("static int never_called_%s() { return 1; }", stem)
	case 4:
		line("int line_%s() { return __LINE__; }", stem)
	case 5:
		line("#error in %s", name)
	}
	if cuda {
		line("%s", h.deviceCode(stem, value))
	}
	line("int f_%s() { return %s; }", stem, value)
	if name == "main.cpp" {
		line("int main() { return %s; }", value)
	}
	return b.String()
}

// deviceCode has a kernel always.
func (h *torture) deviceCode(stem, value string) string {
	var lines []string
	switch h.rng.IntN(12) {
	case 0:
		lines = append(lines, fmt.Sprintf("__device__ int warned_%s() { int never_used = 1; return 0; }", stem))
	case 1:
		lines = append(lines, fmt.Sprintf("__device__ int spills_%s() { return 1; }", stem))
	case 2, 3:
		lines = append(lines, fmt.Sprintf("#if __CUDA_ARCH__ >= %d\n__device__ int new_%s() { return %d; }\n#endif", one(h, 750, 800, 860), stem, h.rng.IntN(3)))
	case 4:
		lines = append(lines, fmt.Sprintf("#ifdef __CUDA_ARCH_LIST__\n__device__ int list_%s() { const int all[] = {__CUDA_ARCH_LIST__}; return all[0]; }\n#endif", stem))
	case 5:
		lines = append(lines, fmt.Sprintf("#ifndef __CUDA_ARCH__\nint host_%s() { return %d; }\n#endif", stem, h.rng.IntN(3)))
	}
	lines = append(lines, fmt.Sprintf("__global__ void k_%s(int *p) { p[0] = %s; }", stem, value))
	return strings.Join(lines, "\n")
}

// present are the files of the project that match, as names in it.
func (h *torture) present(patterns ...string) (names []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(h.dir, p))
		for _, f := range found {
			rel, _ := filepath.Rel(h.dir, f)
			names = append(names, rel)
		}
	}
	return names
}

// presentTargets are the targets of the manifest, of some kinds.
func (h *torture) presentTargets(kinds ...string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(h.hcl)) {
		kind, _, _ := strings.Cut(name, ".")
		if h.hcl[name]["present"] != "" && slices.Contains(kinds, kind) {
			names = append(names, name)
		}
	}
	return names
}

// random is an edit. After a build that failed it is mostly one that mends.
func (h *torture) random() edit {
	if h.failed && h.chance(60) {
		if e, ok := h.mend(); ok {
			return e
		}
	}
	for {
		makers := []func() (edit, bool){h.editSource, h.editSource, h.editSource, h.editHeader, h.editHeader, h.editHeader, h.editFile, h.editTarget, h.editTarget,
			h.editCode, h.editData, h.editEnv, h.editEnv, h.editOutput, h.editRun, h.editRun, h.editLayout}
		if e, ok := one(h, makers...)(); ok {
			return e
		}
	}
}

// mend puts a source or a script right, or what else may be wrong.
func (h *torture) mend() (edit, bool) {
	for _, name := range append(h.sources(), h.present("*.h", "*/*.h", "*/*/*.h", "tools/*")...) {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		switch {
		case err != nil: // a folder, or a link to nothing
			return edit{kind: removeEdit, name: name}, true
		case strings.Contains(string(text), "missing.h") || strings.Contains(string(text), "#error") || strings.Contains(string(text), "exit 1"):
			return edit{kind: writeFileEdit, name: name, text: h.good(name)}, true
		}
	}
	for _, name := range []string{"inc/h0.h", "inc/h1.h", "inc/sub/h2.h"} {
		if !slices.Contains(h.present("inc/*.h", "inc/*/*.h"), name) {
			return edit{kind: writeFileEdit, name: name, text: h.good(name)}, true
		}
	}
	for _, t := range h.presentTargets("library", "executable", "module") {
		if h.hcl[t]["deps"] == "[]" {
			return edit{kind: setEdit, name: t + " deps", text: "[generate.tables]"}, true
		}
	}
	return edit{}, false
}

// good is a content that compiles.
func (h *torture) good(name string) string {
	switch filepath.Ext(name) {
	case ".h":
		return h.header(name)
	case ".sh":
		return "cat data/in > $1\n"
	}
	for {
		if text := h.source(name); !strings.Contains(text, "missing.h") && !strings.Contains(text, "#error") {
			return text
		}
	}
}

// content puts a new content into a file in one of the ways that there are.
func (h *torture) content(name, text string) edit {
	return edit{kind: one(h, writeFileEdit, writeFileEdit, writeFileEdit, replaceEdit, sneakEdit), name: name, text: text}
}

func (h *torture) sources() []string { return h.present("*.cu", "*/*.cu", "*.cpp", "dyn/*.cpp") }

func (h *torture) editSource() (edit, bool) {
	all := h.sources()
	if len(all) == 0 || h.chance(10) {
		name := one(h, "dyn/b.cpp", "dyn/c.cpp")
		if slices.Contains(all, name) {
			return edit{kind: removeEdit, name: name}, true
		}
		return edit{kind: writeFileEdit, name: name, text: h.source(name)}, true
	}
	name := one(h, all...)
	text := h.source(name)
	if was, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && h.chance(40) {
		text = h.changed(string(was))
	}
	return h.content(name, text), true
}

// changed is a small edit of a text: what one pass alone sees, or none.
func (h *torture) changed(text string) string {
	switch h.rng.IntN(5) {
	case 0:
		return "// a comment\n" + text
	case 1:
		return "\n" + text
	case 2:
		return strings.Replace(text, "#include <", "#include  <", 1)
	case 3:
		return text + fmt.Sprintf("// %d\n", h.rng.IntN(10))
	}
	return strings.Replace(text, "return 1;", "return 2;", 1)
}

func (h *torture) editHeader() (edit, bool) {
	name := filepath.Join(one(h, headerDirs...), one(h, headers...))
	there := slices.Contains(h.present("*.h", "*/*.h", "*/*/*.h"), name)
	if there && h.chance(40) && !strings.HasPrefix(name, "inc/") {
		return edit{kind: removeEdit, name: name}, true
	}
	if was, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && h.chance(50) {
		return h.content(name, otherValue(string(was))), true
	}
	return h.content(name, h.header(name)), true
}

// otherValue is a text with another last digit: one byte, which may be the last of all.
func otherValue(text string) string {
	at := strings.LastIndexAny(text, "0123456789")
	if at < 0 {
		return text
	}
	return text[:at] + string('0'+(text[at]-'0'+1)%10) + text[at+1:]
}

// editFile changes what a file is, or its time.
func (h *torture) editFile() (edit, bool) {
	files := append(h.present("*.h", "*/*.h", "*/*/*.h"), h.sources()...)
	if len(files) == 0 {
		return edit{}, false
	}
	name := one(h, files...)
	switch h.rng.IntN(5) {
	case 0:
		other := one(h, files...)
		if filepath.Ext(other) != filepath.Ext(name) || other == name {
			return edit{}, false
		}
		to, _ := filepath.Rel(filepath.Dir(name), other)
		return edit{kind: linkEdit, name: name, text: to}, true
	case 1:
		if !strings.HasSuffix(name, ".h") {
			return edit{}, false
		}
		return edit{kind: folderEdit, name: name}, true
	}
	return edit{kind: timeEdit, name: name, n: one(h, -1000, -1, 0, 1, 1000)}, true
}

// editCode adds, removes and reorders architectures: of all, or of a target that nothing else is linked with.
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
		if kind, _, _ := strings.Cut(t, "."); !slices.Contains([]string{"library", "module", "executable"}, kind) || t == "executable.app" {
			return edit{}, false
		}
		return edit{kind: setEdit, name: t + " present", text: map[bool]string{true: "", false: "true"}[h.hcl[t]["present"] != ""]}, true
	}
	t := one(h, targets...)
	set := func(attribute string, values ...string) (edit, bool) {
		return edit{kind: setEdit, name: t + " " + attribute, text: one(h, values...)}, true
	}
	switch h.rng.IntN(13) {
	case 0, 1:
		return set("includes", `["first", "inc"]`, `["inc", "first"]`, `["inc"]`, `["first", "inc", "sys"]`, `[".", "inc"]`)
	case 2:
		return set("defines", "", "{ N = var.n }", "{ H0 = 7 }", "{ A = 1, B = null }")
	case 3:
		flags := []string{"", `{ host = ["-Wall"] }`, `{ nvcc = ["-lineinfo"] }`, `{ nvcc = ["-DX"], host = ["-fno-inline"] }`, `{ ptxas = ["--warn-on-spills"] }`,
			`{ host = ["-iquote", "sys"] }`, `{ host = ["-Isys"] }`, `{ host = ["@cc.opts"] }`}
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
	if h.chance(40) {
		return set("matrix", "", `{ dtype = ["f16", "f32"] }`, `{ dtype = ["f16"] }`)
	}
	return set("emit", `["cubin"]`, `["fatbin", "ptx"]`, `["ptx"]`, `["cubin", "fatbin"]`)
}

// editData changes what generate blocks read and run.
func (h *torture) editData() (edit, bool) {
	switch h.rng.IntN(5) {
	case 3:
		return h.content("cc.opts", one(h, "-DOPT=7\n", "-Ifirst\n", "-Isys -fno-inline\n")), true
	case 0:
		script := one(h, "cat data/in > $1\n", "cat data/in > $1 # comment\n", "cat data/in > $1\necho '#define MORE 1' >> $1\n", "exit 1\n")
		return h.content("tools/gen.sh", script), true
	case 1:
		return edit{kind: setEdit, name: "generate.tables command",
			text: one(h, `["sh", "tools/gen.sh", self.outputs[0]]`, `["cp", "data/in", self.outputs[0]]`)}, true
	case 2:
		return edit{kind: setEdit, name: "generate.tables outputs", text: one(h, `["tables.h"]`, `["h0.h"]`)}, true
	}
	return h.content("data/in", fmt.Sprintf("#define TABLE %d"+one(h, "", "\n"), h.rng.IntN(4))), true
}

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
		return edit{kind: toolEdit, name: one(h, pretendTools...), text: one(h, "1", "2")}, true
	}
	args := []string{"", "", "", "--arch sm_80", "--build-dir out", "--var n=5"}
	if !*tortureReal {
		args = append(args, "--no-split", "--arch sm_80,sm_90")
	}
	return edit{kind: argsEdit, text: one(h, args...)}, true
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
