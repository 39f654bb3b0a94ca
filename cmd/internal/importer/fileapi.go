package importer

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// These types mirror CMake's file API, documented in cmake-file-api(7). A client leaves a query in
// the build tree, and the next run of cmake writes the reply.

type index struct {
	CMake struct {
		Version   struct{ String string }
		Generator struct{ Name string }
	}
	Objects []struct {
		Kind     string
		JSONFile string
		Version  struct{ Major int }
	}
}

type codemodel struct {
	Paths          struct{ Source, Build string }
	Configurations []struct {
		Name        string
		Directories []struct {
			Source         string
			HasInstallRule bool
		}
		Targets []struct{ Name, JSONFile string }
	}
}

type targetReply struct {
	ID, Name, NameOnDisk, Type string
	Imported                   bool
	Paths                      struct{ Source, Build string }
	Artifacts                  []struct{ Path string }
	Dependencies               []struct{ ID string }
	CompileGroups              []compileGroup
	Sources                    []struct {
		Path              string
		CompileGroupIndex *int
		IsGenerated       bool
	}
	Link struct {
		Language         string
		CommandFragments []struct{ Fragment, Role string }
	}
	Archive struct{ CommandFragments []struct{ Fragment string } }
}

type compileGroup struct {
	Language                string
	CompileCommandFragments []struct{ Fragment string }
	Defines                 []struct{ Define string }
	Includes                []struct {
		Path     string
		IsSystem bool
	}
	SourceIndexes []int
}

type toolchains struct {
	Toolchains []struct {
		Language string
		Compiler struct {
			Path, Version, ID string
			Implicit          struct{ IncludeDirectories, LinkDirectories []string }
		}
	}
}

// query is the query that kbuild leaves for CMake.
const query = `{"requests": [{"kind": "codemodel", "version": 2}, {"kind": "toolchains", "version": 1}]}` + "\n"

// reply reads the newest reply in a build tree. exists reports whether there is a reply of the
// supported version.
func reply(dir string) (idx index, exists bool, err error) {
	files, _ := fs.Glob(os.DirFS(dir), ".cmake/api/v1/reply/index-*.json")
	if len(files) == 0 {
		return idx, false, nil
	}
	if err = readJSON(filepath.Join(dir, slices.Max(files)), &idx); err != nil {
		return idx, false, err
	}
	return idx, idx.file("codemodel") != "", nil
}

// file returns the file of an object of the supported version, or "".
func (i index) file(kind string) string {
	for _, o := range i.Objects {
		if o.Kind == kind && o.Version.Major == map[string]int{"codemodel": 2, "toolchains": 1}[kind] {
			return o.JSONFile
		}
	}
	return ""
}

func readJSON(file string, into any) error {
	text, err := regular.Read(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// ask leaves the query in a build tree, and runs cmake once. env is added to the environment.
func ask(dir, program string, args, env []string) error {
	client := filepath.Join(dir, ".cmake/api/v1/query/client-kbuild")
	if err := os.MkdirAll(client, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(client, "query.json"), []byte(query), 0o666); err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if _, after, ok := strings.Cut(text, "CMake Error"); ok {
		text = "CMake Error" + after
	}
	if lines := strings.SplitAfter(text, "\n"); len(lines) > 20 {
		text = strings.Join(lines[:20], "") + "..."
	}
	return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, text)
}

var variableRE = pattern(`(?m)^\s*(?:set\((\w+) "(.*)"\)|(\w+):\w+=(.*?))\s*$`)

// variables returns the variables of a file that CMake writes: CMakeCache.txt, or
// CMakeFiles/3.25.1/CMakeCUDACompiler.cmake.
func variables(file string) map[string]string {
	values := map[string]string{}
	text, _ := regular.Read(file)
	for _, m := range variableRE().FindAllStringSubmatch(string(text), -1) {
		values[m[1]+m[3]] = m[2] + m[4]
	}
	return values
}

// rules holds facts that the generated build files contain but the file API omits. They are which
// sources are compiled as relocatable device code, which targets have a device link, and the
// sonames.
type rules struct {
	relocatable map[string]bool // by object folder: "CMakeFiles/solver.dir"
	linked      map[string]bool
	nvlink      map[string][]string // nvlink options of the device link
	soname      map[string]string
}

// readRules reads the build files of Ninja or make.
func readRules(dir string) (rules, error) {
	r := rules{relocatable: map[string]bool{}, linked: map[string]bool{}, nvlink: map[string][]string{}, soname: map[string]string{}}
	if text, err := regular.Read(filepath.Join(dir, "build.ninja")); err == nil {
		compile, err := regular.Read(filepath.Join(dir, "CMakeFiles/rules.ninja"))
		if err != nil {
			return r, err
		}
		r.ninja(string(text), string(compile))
		return r, nil
	}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "build.make" {
			return err
		}
		text, err := regular.Read(p)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(dir, filepath.Dir(p))
		r.relocatable[folder] = strings.Contains(string(text), " -rdc=true ")
		if device, err := regular.Read(filepath.Join(filepath.Dir(p), "dlink.txt")); err == nil {
			r.linked[folder] = true
			r.nvlink[folder] = forNVLink(string(device))
		}
		link, _ := regular.Read(filepath.Join(filepath.Dir(p), "link.txt"))
		if _, rest, ok := strings.Cut(string(link), "-Wl,-soname,"); ok {
			r.soname[folder], _, _ = strings.Cut(rest, " ")
		}
		return nil
	})
	if err == nil && len(r.relocatable) == 0 {
		err = fmt.Errorf("%s has no files of Ninja or make, and kbuild init reads no other generator's", dir)
	}
	return r, err
}

// ninja parses build statements and rules. A statement's outputs are in its target's folder; its
// rule contains the command.
func (r *rules) ninja(build, text string) {
	relocatable := map[string]bool{} // rules
	rule := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "rule "); ok {
			rule = name
		} else if strings.Contains(line, " -rdc=true ") {
			relocatable[rule] = true
		}
	}
	objects := "" // of the current build statement
	device, options := false, ""
	for line := range strings.Lines(build) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " = "); name {
		case "LINK_FLAGS":
			options = value
		case "OBJECT_DIR":
			before, _, _ := strings.Cut(value, ".dir")
			objects = before + ".dir"
			if device { // its output is in the root folder, even for a target of a subfolder
				r.linked[objects] = true
				r.nvlink[objects] = forNVLink(options)
			}
		case "SONAME":
			r.soname[objects] = value
		}
		rest, ok := strings.CutPrefix(line, "build ")
		output, command, both := strings.Cut(rest, ": ")
		if !ok || !both {
			continue
		}
		output, _, _ = strings.Cut(output, " | ")
		output = strings.NewReplacer("$ ", " ", "$:", ":", "$$", "$").Replace(output)
		folder, _, _ := strings.Cut(output, ".dir/")
		folder += ".dir"
		name, _, _ := strings.Cut(strings.TrimSpace(command), " ")
		r.relocatable[folder] = r.relocatable[folder] || relocatable[name]
		device, options = path.Base(output) == "cmake_device_link.o", ""
	}
}

// forNVLink returns the nvlink options in an nvcc command line.
func forNVLink(command string) (options []string) {
	words, err := toolchain.ShellWords(command, nil)
	if err != nil {
		return nil
	}
	all, err := nvcc.SplitOptions(words)
	if err != nil {
		return nil
	}
	for _, o := range all {
		if o.Name == "-Xnvlink" {
			options = append(options, nvcc.ReadList(o.Value, false)...)
		}
	}
	return options
}
