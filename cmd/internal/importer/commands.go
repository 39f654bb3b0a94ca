package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

const commandsFile = "compile_commands.json"

// command is an entry of compile_commands.json.
type command struct {
	Directory, File, Command string
	Arguments                []string
}

// readCommands reads a compile_commands.json. It contains no links, so the sources of a folder with
// equal options become a library.
func readCommands(file, root string) (*Build, error) {
	text, err := regular.Read(file)
	if err != nil {
		return nil, err
	}
	var list []command
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s is no compile_commands.json: %w", file, err)
	}
	b := &Build{From: file, Root: root}
	for i := range list {
		if !filepath.IsAbs(list[i].Directory) {
			list[i].Directory = filepath.Join(filepath.Dir(file), list[i].Directory)
		}
		if !filepath.IsAbs(list[i].File) {
			list[i].File = filepath.Join(list[i].Directory, list[i].File)
		}
	}
	if root == "" {
		b.Root = commonRoot(filepath.Dir(file), list)
	}
	for _, c := range list {
		b.addTree(c.Directory)
	}
	b.note("", "links: compile_commands.json has none. Sources of one folder are a library here; write the programs and the shared libraries by hand")
	for _, c := range list {
		if err := b.compileCommand(c); err != nil {
			b.note("", "%s: %v", b.rel(c.Directory, c.File), err)
		}
	}
	return b.finish()
}

// commonRoot returns the root of the project: a folder that contains all sources, and is the file's
// folder, its parent, or a git checkout; else the nearest folder that contains them.
func commonRoot(dir string, list []command) string {
	common := dir
	if len(list) > 0 {
		common = filepath.Dir(list[0].File)
	}
	for _, c := range list {
		for !strings.HasPrefix(c.File, strings.TrimSuffix(common, "/")+"/") {
			common = filepath.Dir(common)
		}
	}
	for d := common; d != "/"; d = filepath.Dir(d) {
		if d == dir || d == filepath.Dir(dir) || exists(d, ".git") {
			return d
		}
	}
	return common
}

// compileCommand converts one compile.
func (b *Build) compileCommand(c command) error {
	words := c.Arguments
	if words == nil {
		var err error
		if words, err = toolchain.ShellWords(c.Command, nil); err != nil {
			return err
		}
	}
	sources := b.realSources("", c.File)
	if len(sources) == 0 {
		return nil
	}
	if words = withoutLaunchers(words); len(words) == 0 {
		return fmt.Errorf("its command is empty")
	}
	is := func(w string) bool { return w == c.File || filepath.Join(c.Directory, w) == c.File }
	name := libraryName(path.Dir(b.rel("", sources[0])))
	g, err := b.compile(name, words[0], slices.DeleteFunc(slices.Clone(words[1:]), is), c.Directory, c.File)
	if err != nil {
		return err
	}
	for _, source := range sources {
		own := *g
		b.collect(name, &own, b.rel("", source))
	}
	return nil
}

// compile parses the options of a program that compiles a file in a directory.
func (b *Build) compile(target, program string, words []string, dir, file string) (*Group, error) {
	language := manifest.LanguageOf(file)
	isNVCC := strings.HasPrefix(path.Base(program), "nvcc")
	if i := slices.IndexFunc(words, func(w string) bool { return w == "-x" || w == "--x" }); i >= 0 && i+1 < len(words) {
		language = map[string]string{"cu": "cuda", "cuda": "clang", "hip": "hip", "c": "c", "c++": "c++",
			host.Assembler: "asm", host.AssemblerWithCPP: "asm"}[words[i+1]]
	}
	switch {
	case language == "clang" || language == "cuda" && !isNVCC:
		return nil, fmt.Errorf("%s compiles it for GPUs, and only nvcc is read", program)
	case language != "cuda" && language != "c++" && language != "c" && language != "asm":
		return nil, fmt.Errorf("it is no C, C++, CUDA or assembler source")
	case misnamed(file, words) != "":
		return nil, errors.New(misnamed(file, words))
	case language == "cuda":
		b.NVCC = program
	case isNVCC: // it passes some options to the host compiler
		g, err := b.group(target, "cuda", dir, words)
		if err == nil {
			g.Language, g.Codes, g.Flags = language, nil, nil
		}
		return g, err
	}
	return b.group(target, language, dir, words)
}

// misnamed reports that an option and the file's extension disagree on whether assembler is
// preprocessed. It returns "" if they agree.
func misnamed(file string, words []string) string {
	isRaw := path.Ext(file) == ".s"
	switch {
	case slices.Contains(words, host.AssemblerWithCPP) && isRaw:
		return "it is preprocessed: let its name end in .S"
	case slices.Contains(words, host.Assembler) && !isRaw:
		return "it is not preprocessed: let its name end in .s"
	}
	return ""
}

// libraryName returns the name of the library for a folder's sources.
func libraryName(dir string) string {
	if dir == "." || dir == "src" || path.IsAbs(dir) {
		return "sources"
	}
	return plainName(strings.ReplaceAll(dir, "/", "_"))
}

// collect adds a source to the library of its folder, or to a module.
func (b *Build) collect(name string, g *Group, source string) {
	g.Sources = []string{source}
	if g.Emit != "" {
		b.Targets = append(b.Targets, &Target{Name: plainName(name + "_" + stem(source)), Kind: "module", Emit: g.Emit, Groups: []*Group{g}})
		return
	}
	i := slices.IndexFunc(b.Targets, func(t *Target) bool { return t.Name == name && t.Kind == "library" })
	if i < 0 {
		i = len(b.Targets)
		b.Targets = append(b.Targets, &Target{Name: name, Kind: "library"})
	}
	if b.Targets[i].has(source) {
		b.note(name, "%s is compiled twice", source)
		return
	}
	b.Targets[i].join(g)
}
