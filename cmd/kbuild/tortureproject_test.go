package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

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

// headers are the names that sources include, and headerDirs where they may be; include folders in
// their usual order.
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
	do(writeFileEdit, "dyn/a.cpp", h.good("dyn/a.cpp"))
	set("library.dyn", append(includes, "sources", `glob("dyn/*.cpp")`, "type", shared, "deps", "[generate.tables]", "present", "true")...)
	do(writeFileEdit, "main.cpp", h.good("main.cpp"))
	deps := "library.dyn"
	targets := slices.Sorted(maps.Keys(cudaTargets))
	h.rng.Shuffle(len(targets), func(i, k int) { targets[i], targets[k] = targets[k], targets[i] })
	for _, target := range targets[:one(h, 1, 1, 1, 2)] {
		_, name, _ := strings.Cut(target, ".")
		do(writeFileEdit, name+".cu", h.good(name+".cu"))
		set(target, append(includes, "sources", fmt.Sprintf("[%q]", name+".cu"), "gencode", "gencode.all", "mode", fmt.Sprintf("%q", cudaTargets[target]),
			"deps", "[generate.tables]", "present", "true")...)
		switch target {
		case "library.one", "library.two":
			deps += ", " + target
		case "module.mod":
			set(target, "emit", one(h, `["cubin"]`, `["fatbin", "ptx"]`, `["ptx"]`))
		}
	}
	set("executable.app", append(includes, "sources", `["main.cpp"]`, "defines", "{ N = var.n }")...)
	deps = h.projectLibraries(func(e edit) {
		s = append(s, e)
		h.apply(e)
	}, deps)
	set("executable.app", "deps", "["+deps+"]", "present", "true")
	return s
}

func (h *torture) header(name string) string {
	macro := strings.ToUpper(strings.TrimSuffix(filepath.Base(name), ".h"))
	text := fmt.Sprintf("#undef %[1]s\n#define %[1]s %d\n", macro, h.rng.IntN(4))
	switch h.rng.IntN(14) {
	case 0:
		text += "// a comment\n"
	case 4:
		text += fmt.Sprintf("static inline int line_%s() { return __LINE__; }\n", strings.ToLower(macro))
	case 5, 6:
		text += fmt.Sprintf("enum { half_%s = 8\n%s\n-2 };\n", strings.ToLower(macro), one(h, "/", "// half"))
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

// source is a source that the real compilers take too. The words of warnings are those of
// cmd/internal/pretend.
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
	if name == "main.cpp" {
		line("#ifdef USE_EXT\nint ext();\nint call_ext() { return ext(); }\n#endif")
		line("#if __has_include(\"mods.h\")\n#include \"mods.h\"\nconst void *mods_data() { return mods[0].data; }\n#endif")
	}
	switch h.rng.IntN(24) {
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
	if name == "main.cpp" || name == "lto.cu" {
		line("int main() { return %s; }", value)
	}
	return b.String()
}

// deviceCode has a kernel always.
func (h *torture) deviceCode(stem, value string) string {
	var lines []string
	switch h.rng.IntN(16) {
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
	case 6:
		lines = append(lines, fmt.Sprintf("__global__ void rejected_%s(int *p) { __shared__ int ptxas_rejects[20000]; p[0] = ptxas_rejects[p[1]]; }", stem))
	}
	lines = append(lines, fmt.Sprintf("__global__ void k_%s(int *p) { p[0] = %s; }", stem, value))
	return strings.Join(lines, "\n")
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
		text := h.source(name)
		if !slices.ContainsFunc([]string{"missing.h", "#error", "ptxas_rejects"}, func(wrong string) bool { return strings.Contains(text, wrong) }) {
			return text
		}
	}
}
