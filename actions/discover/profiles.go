package discover

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// A compile that is guided by a profile reads it, and no dependency file names it. gcc derives the
// name of the .gcda from the name of the object. It looks beside the object, or in the folder of
// -fprofile-use= or -fprofile-dir= under the whole path with # for /. (gcc 11 and 12; clang 15
// reads the named file, or default.profdata.) A file that an option names is found like any other.

// profiles returns the paths where a compile looks for a profile, whether they exist or not.
func (g *arguments) profiles(a *graph.Action) []string {
	if a.Kind.Info().Writes != graph.FormObject {
		return nil
	}
	var files, dirs []string
	byObject := false
	options := a.Argv[1:]
	if isNVCC(a) {
		options = nvcc.HostOptions(slices.Concat(options, g.nvccFlags()))
	}
	for _, o := range options {
		switch name, value, _ := strings.Cut(o, "="); {
		case name == "-fprofile-dir":
			dirs = append(dirs, value)
		case o == "-fprofile-use" || o == "-fbranch-probabilities":
			byObject = true
			files = append(files, "default.profdata")
		case name == "-fprofile-use":
			byObject = true
			dirs = append(dirs, value)
			files = append(files, value, path.Join(value, "default.profdata"))
		case o == "-fprofile-instr-use":
			files = append(files, "default.profdata")
		case o == "-fauto-profile":
			files = append(files, "fbdata.afdo")
		case name == "-fauto-profile":
			files = append(files, value)
		}
	}
	if !byObject {
		return files
	}
	data := strings.TrimSuffix(a.Outputs[0], path.Ext(a.Outputs[0])) + ".gcda"
	files = append(files, data)
	for _, dir := range dirs {
		files = append(files, path.Join(dir, g.mangled(data)))
	}
	return files
}

// nvccFlags returns the options that the environment adds to each nvcc command.
func (g *arguments) nvccFlags() (options []string) {
	for _, e := range g.keyEnv {
		if name, value, _ := strings.Cut(e, "="); name == "NVCC_PREPEND_FLAGS" || name == "NVCC_APPEND_FLAGS" {
			options = append(options, strings.Fields(value)...)
		}
	}
	return options
}

// mangled returns a path as gcc spells it in a single file name.
func (g *arguments) mangled(file string) string {
	if !path.IsAbs(file) {
		// gcc gets its working directory from the kernel.
		root, err := filepath.EvalSymlinks(g.tree.Root)
		if err != nil {
			root = g.tree.Root
		}
		file = root + "/" + file
	}
	var parts []string
	for _, p := range strings.Split(file, "/") {
		switch p {
		case ".":
			continue
		case "..":
			p = "^"
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, "#")
}
