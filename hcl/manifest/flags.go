package manifest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// flags = { nvcc = [...], ... } are options for which kbuild has no attribute. Options that kbuild
// derives itself, or that must be equal across a link, are errors: they would silently override the
// attribute.

var flagTools = attributeNames(attrFlags.Keys)

// derivedNVCC are options of nvcc that have an attribute.
var derivedNVCC = []struct{ options, attribute string }{
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
}

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
	places := literals(f.expr)
	values := f.val.AsValueMap()
	for _, tool := range sortedKeys(values) {
		if !slices.Contains(flagTools, tool) {
			r.l.errorAt(f.keyRange(tool), knownNames("tool", flagTools), "flags has no tool %q%s",
				tool, didYouMean(tool, flagTools))
			continue
		}
		*out.of(tool) = r.toolFlags(f, tool, values[tool], places, out.At)
	}
	return out
}

func (f *Flags) of(tool string) *[]string {
	return map[string]*[]string{
		"nvcc": &f.NVCC, "cicc": &f.CICC, "ptxas": &f.PTXAS, "nvlink": &f.NVLink, "hip": &f.HIP,
		"lld": &f.LLD, "clang": &f.Clang, "host": &f.Host, "link": &f.Link,
	}[tool]
}

func (r *reader) toolFlags(
	f *field, tool string, v cty.Value, places places, at map[string]Pos,
) []string {
	if v.IsNull() {
		return nil
	}
	if !isList(v) {
		r.l.errorAt(f.keyRange(tool), "", "flags.%s needs a list of strings, not %s", tool, typeName(v))
		return nil
	}
	var written []item
	for _, e := range v.AsValueSlice() {
		s, ok := asText(e)
		if !ok {
			r.l.errorAt(f.keyRange(tool), "", "flags.%s needs a list of strings, and one element is %s",
				tool, typeName(e))
			continue
		}
		written = append(written, item{s, places.take(s, f.rng)})
	}
	var out []string
	for _, i := range r.l.writtenOut(tool, written) {
		if r.refuseFlag(tool, i) {
			continue
		}
		if _, twice := at[i.text]; !twice {
			at[i.text] = position(i.rng)
		}
		out = append(out, i.text)
	}
	return out
}

// refuseFlag reports a flag that is not allowed. It returns true if it did.
func (r *reader) refuseFlag(tool string, i item) bool {
	if attr, derived := derivedFrom(tool, i.text); derived {
		help := "Remove it: kbuild says itself what the compiler is to make, and where."
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
	case "host", "link", "lld":
	case "nvcc", "cicc", "ptxas", "nvlink":
		write = files.NVIDIA
	case "hip", "clang":
		write = files.Clang
	default:
		return flags
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

// derivedNVLink are options of nvlink that name files to write.
var derivedNVLink = []struct{ options, attribute string }{{"-o --output-file -time --time", itself}}

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

func derivedFrom(tool, flag string) (attribute string, derived bool) {
	list := derivedNVCC
	switch tool {
	case "nvcc":
	case "nvlink":
		list = derivedNVLink
	case "hip", "clang":
		list = derivedClang
	default:
		return "", false
	}
	name, _, _ := strings.Cut(flag, "=")
	for _, d := range list {
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
