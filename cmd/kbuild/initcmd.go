package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/importer"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

type initCmd struct {
	Force bool   `help:"Replace an existing kernels.hcl."`
	From  string `placeholder:"DIR" help:"Write it for what another build tool builds: DIR is a build tree of CMake, or has a compile_commands.json, or is one. Never replaces a kernels.hcl."`
}

// Run writes a manifest for the sources of a folder, or for what another build tool builds. Lines
// that the planner rejects are removed first.
func (cmd initCmd) Run(c *cli) error {
	root, doc, nvcc, of, err := cmd.read(c)
	if err != nil {
		return err
	}
	file := filepath.Join(root, c.manifestName())
	if filepath.IsAbs(c.manifestName()) {
		file = c.manifestName()
	}
	if _, err := os.Lstat(file); err == nil && cmd.From != "" {
		return usagef("%s exists, and --from replaces none. Move it away, or name another with -f", file)
	}
	unplanned := c.refine(root, nvcc, doc)
	for i, n := range doc.Notes {
		if i == 30 && doc.HasTargets() {
			c.say("kbuild: and %d more, at the end of the manifest", len(doc.Notes)-i)
			break
		}
		c.say("kbuild: %s: %s", cmd.lost(), n)
	}
	if !doc.HasTargets() {
		return usagef("nothing in %s can be built, so no manifest is written", of)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(doc.Text())
		return err
	})
	if err != nil {
		return err
	}
	if unplanned != nil {
		c.say("kbuild: warning: it could not be planned here, so it may have errors: %v", unplanned)
	}
	if cmd.From != "" {
		c.say("kbuild: wrote %s, of %s. Try: kbuild -C %s plan", file, of, root)
		return nil
	}
	libraries := fmt.Sprintf("%d libraries", doc.Count("library"))
	if doc.Count("library") == 1 {
		libraries = "1 library"
	}
	programs := graph.Count(doc.Count("executable"), "program")
	c.say("kbuild: wrote %s: %s, %s. Try: kbuild plan", file, programs, libraries)
	return nil
}

// lost returns the word for what is not in the manifest.
func (cmd initCmd) lost() string {
	if cmd.From != "" {
		return "not carried over"
	}
	return "left out"
}

// read reads the other build, or the folder of sources. root is the folder of the manifest, nvcc
// the compiler of the other build, and of names what was read.
func (cmd initCmd) read(c *cli) (root string, doc *importer.Document, nvcc, of string, err error) {
	if cmd.From != "" {
		if c.Dir != "." {
			root, _ = filepath.Abs(c.Dir)
		}
		found, err := importer.Find(c.seen(cmd.From), root, func(text string) { c.say("kbuild: %s", text) })
		if err != nil {
			return "", nil, "", "", usagef("%v", err)
		}
		return found.Root, found.Manifest(), found.NVCC, found.From, nil
	}
	root, err = filepath.Abs(c.Dir)
	if err != nil {
		return "", nil, "", "", err
	}
	file := filepath.Join(root, c.manifestName())
	if _, err := os.Lstat(file); err == nil && !cmd.Force {
		return "", nil, "", "", usagef("%s exists; --force replaces it", file)
	}
	tree, err := importer.FindTree(c.Dir, searched())
	if err != nil {
		return "", nil, "", "", err
	}
	doc = tree.Draft()
	if !doc.HasTargets() && len(doc.Notes) == 0 {
		return "", nil, "", "", usagef("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", c.Dir)
	}
	return root, doc, "", root, nil
}

// searched returns the search paths, version and architectures of the local toolkit. Fields that
// cannot be queried stay empty.
func searched() (m importer.Machine) {
	ctx := context.Background()
	facts, err := probe.Collect(ctx, probe.Request{NeedCUDA: true, Env: os.Getenv})
	if err != nil || facts.CUDA == nil {
		return m
	}
	compiler := facts.CUDA.HostCXX.Path
	if compiler == "" {
		compiler = facts.CXX.Path
	}
	ask := func(argv []string) string {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		text, _ := cmd.CombinedOutput()
		return string(text)
	}
	search, ok := host.ParseSearch(ask(host.AskSearch([]string{compiler}, nil, "c++")))
	folders, known := host.ParseFolders(ask(host.AskFolders([]string{compiler})))
	if !ok || !known {
		return m
	}
	own := filepath.Join(facts.CUDA.Root, "include")
	m.Includes = slices.Concat(search.Dirs, facts.CUDA.Includes, []string{own, filepath.Join(own, "cccl")})
	m.LibDirs = slices.Concat(folders.Libraries, facts.CUDA.LibDirs)
	m.Version = facts.CUDA.Version
	for _, a := range facts.CUDA.Archs {
		m.Archs = append(m.Archs, a.String())
	}
	return m
}
