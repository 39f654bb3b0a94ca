package manifest

import (
	"maps"
	"slices"
)

// schema is what a block may hold. Read this file and you know the language.
type schema struct {
	label  string            // what its label is, "" if it has none
	attrs  []string          // attributes
	open   string            // not "": any attribute is fine, and it is one of these
	blocks map[string]schema // nested blocks
	once   bool              // may be written once in a manifest (or in its block, when nested)
}

// hostAttrs are for what holds host code of its own; `defaults` takes them too, and modules do not.
var hostAttrs = []string{"host_lto"}

// compileAttrs decide how sources are compiled and linked; `defaults` takes all of them.
var compileAttrs = []string{
	"gencode", "code", "mode", "std", "includes", "defines", "libs", "lib_dirs", "cudart", "opt",
	"debug", "device_debug", "lineinfo", "fast_math", "ftz", "prec_div", "prec_sqrt", "fmad",
	"max_registers", "flags", "memory", "language", "labels",
	"split", "strip_unused", "lto_group",
}

// reserved attributes parse and answer that they are not built yet.
var reserved = []string{"lto_group"}

var partitionSchema = schema{
	label: "a name",
	attrs: []string{"match", "mode", "defines", "flags", "memory", "language"},
}

// blocks are the top-level blocks.
var blocks = map[string]schema{
	"kbuild": {attrs: []string{"required_version"}, once: true},
	"variable": {
		label:  "a name",
		attrs:  []string{"type", "default", "description"},
		blocks: map[string]schema{"validation": {attrs: []string{"condition", "error_message"}}},
	},
	"locals":    {open: "values"},
	"profile":   {label: "a name", open: "variables"},
	"toolchain": {label: `"cuda" or "hip"`, attrs: []string{"compiler", "host_compiler", "version"}},
	"gencode":   {label: "a name", attrs: []string{"code", "arch_list"}},
	"defaults":  {attrs: slices.Concat(compileAttrs, hostAttrs), once: true},
	"library": {
		label:  "a name",
		attrs:  slices.Concat([]string{"sources", "deps", "type", "device_link"}, compileAttrs, hostAttrs),
		blocks: map[string]schema{"partition": partitionSchema},
	},
	"executable": {
		label:  "a name",
		attrs:  slices.Concat([]string{"sources", "deps"}, compileAttrs, hostAttrs),
		blocks: map[string]schema{"partition": partitionSchema},
	},
	"module": {
		label:  "a name",
		attrs:  slices.Concat([]string{"sources", "deps", "emit", "matrix", "exclude"}, compileAttrs),
		blocks: map[string]schema{"partition": partitionSchema, "embed": {attrs: []string{"symbol"}, once: true}},
	},
	"prebuilt": {
		label: "a name",
		attrs: []string{"archive", "shared", "includes", "libs", "lib_dirs", "lto", "deps", "labels", "fast_math", "ftz", "prec_div", "prec_sqrt", "fmad"},
	},
	"generate": {
		label: "a name",
		attrs: []string{"command", "inputs", "outputs", "deps", "memory", "labels"},
	},
	"group": {label: "a name", attrs: []string{"targets"}},
}

// targetKinds are the blocks that references and the command line may name.
var targetKinds = []string{"library", "executable", "module", "prebuilt", "generate"}

// inherits reports whether a block of this kind takes values from `defaults`.
func inherits(kind, attr string) bool {
	switch kind {
	case "library", "executable":
		return slices.Contains(compileAttrs, attr) || slices.Contains(hostAttrs, attr)
	case "module":
		return slices.Contains(compileAttrs, attr)
	}
	return false
}

func isTarget(kind string) bool { return slices.Contains(targetKinds, kind) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
