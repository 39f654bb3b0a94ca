package manifest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// flags = { nvcc = [...], ... } are options for which kbuild has no attribute. Options that kbuild
// derives itself, or that must be equal across a link, are errors: they would silently override the
// attribute.

var flagTools = attributeNames(attrFlags.Keys)

// derived are options that have an attribute, by tool. For nvlink they name files to write.
var derived = map[string][]struct{ options, attribute string }{
	"nvcc": {
		{"-gencode --generate-code -arch --gpu-architecture -code --gpu-code", "gencode"},
		{"-dc --device-c -rdc --relocatable-device-code -dlto --dlink-time-opt -dlink --device-link",
			"mode"},
		{"-use_fast_math --use_fast_math", "fast_math"},
		{"-ftz --ftz", "ftz"}, {"-prec-div --prec-div", "prec_div"},
		{"-prec-sqrt --prec-sqrt", "prec_sqrt"}, {"-fmad --fmad", "fmad"},
		{"-G --device-debug", "device_debug"}, {"-maxrregcount --maxrregcount", "max_registers"},
		{"-std --std", "std"},
		{"-ccbin --compiler-bindir", "host_compiler of toolchain \"cuda\""},
		{"-keep --keep -keep-dir --keep-dir -save-temps --save-temps", itself},
	},
	"nvlink": {{"-o --output-file -time --time", itself}},
	"hip":    derivedClang, "clang": derivedClang,
}

// Compiled modules are files that one source writes and others read: kbuild neither orders those
// sources nor keeps the files. clang's modules of headers (-fmodules) are allowed.
var moduleFlags = []string{"-fmodules-ts", "-fmodule-file", "-fmodule-header", "-fmodule-mapper",
	"-fmodule-only", "-fmodule-output", "-fprebuilt-module-path"}

const moduleHelp = "Include headers instead, or have another tool build the modules into a library, " +
	"and declare that as a prebuilt."

// LostNVCC returns the reason why an nvcc option would have no effect in kbuild, and what to do; ""
// for other options.
func LostNVCC(flag string) (why, help string) {
	name, _, _ := strings.Cut(flag, "=")
	switch "-" + strings.TrimLeft(name, "-") {
	case "-prune", "-Xnvprune":
		return flag + " would have no effect", "Remove it: nvcc prunes objects when it links a " +
			"program, and kbuild links programs itself. gencode says what they ship."
	}
	return "", ""
}

// flags reads a map of lists of options by tool.
func (r *reader) flags(f *field) Flags {
	if !isMap(f.val) {
		r.l.errorAt(f.rng, "", `flags needs a map by tool, such as { nvcc = ["-lineinfo"] }, not %s`,
			typeName(f.val))
		return Flags{}
	}
	out := Flags{At: map[string]Pos{}}
	values := f.val.AsValueMap()
	for _, tool := range sortedKeys(values) {
		if !slices.Contains(flagTools, tool) {
			r.l.unknown(f.keyRange(tool), "tool", tool, flagTools, "flags has no tool %q", tool)
		} else if list := f.under(tool, values[tool]); !list.val.IsNull() {
			for _, i := range r.l.writtenOut(tool, list.items()) {
				if r.refuseFlag(tool, i) {
					continue
				}
				if _, twice := out.At[i.text]; !twice {
					out.At[i.text] = position(i.rng)
				}
				*out.of(tool) = append(*out.of(tool), i.text)
			}
		}
	}
	return out
}

func (f *Flags) of(tool string) *[]string {
	return map[string]*[]string{
		"nvcc": &f.NVCC, "cicc": &f.CICC, "ptxas": &f.PTXAS, "nvlink": &f.NVLink, "hip": &f.HIP,
		"lld": &f.LLD, "clang": &f.Clang, "host": &f.Host, "link": &f.Link,
	}[tool]
}

// refuseFlag reports a flag that is not allowed. It returns true if it did.
func (r *reader) refuseFlag(tool string, i item) bool {
	if attr, derived := derivedFrom(tool, i.text); derived {
		help := "Remove it: kbuild itself sets what the compiler writes, and where."
		if attr != itself {
			help = fmt.Sprintf("Use the attribute %s.", attr)
		}
		r.l.errorAt(i.rng, help, "kbuild derives %s itself", i.text)
		return true
	}
	if why, help := LostNVCC(i.text); tool == "nvcc" && why != "" {
		r.l.errorAt(i.rng, help, "%s", why)
		return true
	}
	if slices.ContainsFunc(moduleFlags, func(f string) bool { return strings.Contains(i.text, f) }) {
		r.l.errorAt(i.rng, moduleHelp, "%s is for C++20 modules, which kbuild does not build", i.text)
		return true
	}
	if strings.HasPrefix(i.text, "@") && (tool == "hip" || tool == "clang") {
		r.l.errorAt(i.rng, "Write the options themselves.", "flags.%s takes no file of options", tool)
		return true
	}
	return false
}

// writtenOut expands the option files in flags. Like the manifest, such files are inputs of the
// plan.
func (l *sourceTree) writtenOut(tool string, flags []item) []item {
	texts := make([]string, len(flags))
	for i, f := range flags {
		texts[i] = f.text
	}
	files := optfile.Files{Read: l.optionFile}
	write := files.GNU
	switch tool {
	case "nvcc", "cicc", "ptxas", "nvlink":
		write = files.NVIDIA
	case "hip", "clang":
		write = files.Clang
	}
	words, err := write(texts)
	var fault *optfile.Error
	if errors.As(err, &fault) {
		l.errorAt(flags[fault.From].rng, fault.Help, "%s", fault.Say)
		return nil
	}
	out := make([]item, len(words))
	for i, w := range words {
		out[i] = item{w.Text, flags[w.From].rng}
	}
	return out
}

// optionFile reads an option file once. name is relative to the root, where commands run.
func (l *sourceTree) optionFile(name string) ([]byte, error) {
	rel, err := filepath.Rel(l.project.Root, name)
	if err == nil && filepath.IsAbs(name) && filepath.IsLocal(rel) {
		name = rel
	}
	name = filepath.ToSlash(filepath.Clean(name))
	if l.inBuildTree(name) {
		return nil, errors.New(
			"it is in the build tree, and files of options are read before anything is built")
	}
	if known, ok := l.project.sources[name]; ok {
		return known, nil
	}
	text, err := l.fsys.read(l.project.Root, name)
	if err == nil {
		l.project.Files = append(l.project.Files, name)
		l.project.sources[name] = text
	}
	return text, err
}

// derivedClang are options of clang that have an attribute, for HIP and CUDA.
var derivedClang = []struct{ options, attribute string }{
	{"--offload-arch --cuda-gpu-arch --amdgpu-target --no-offload-arch --no-cuda-gpu-arch " +
		"--cuda-include-ptx --no-cuda-include-ptx", "gencode"},
	{"-fgpu-rdc -fno-gpu-rdc -foffload-lto -fno-offload-lto --hip-link", "mode"},
	{"-std --std", "std"},
	{"--cuda-host-only --cuda-device-only --cuda-compile-host-device --offload-host-only " +
		"--offload-device-only --genco -### -E -S -c -o -x -M -MD -MF -MM -MT -emit-llvm " +
		"-fsyntax-only -save-temps -save-stats -cuid -fuse-cuid --no-gpu-bundle-output " +
		"--gpu-bundle-output", itself},
}

// itself marks an option without an attribute: kbuild derives it from its actions.
const itself = ""

func derivedFrom(tool, flag string) (attribute string, found bool) {
	name, _, _ := strings.Cut(flag, "=")
	for _, d := range derived[tool] {
		if slices.Contains(strings.Fields(d.options), name) {
			return d.attribute, true
		}
	}
	return "", false
}

// with returns a copy with the flags of more appended.
func (f *Flags) with(more *Flags) *Flags {
	both := &Flags{At: maps.Clone(f.At)}
	if both.At == nil {
		both.At = more.At
	} else {
		maps.Copy(both.At, more.At)
	}
	for _, tool := range flagTools {
		*both.of(tool) = slices.Concat(*f.of(tool), *more.of(tool))
	}
	return both
}
