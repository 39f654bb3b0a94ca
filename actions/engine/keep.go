package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// keepDir is the folder of the build tree for --keep.
const keepDir = "keep"

// keepCode writes the device code between the passes of nvcc to build/keep, as --keep requests. It
// removes the files of the last --keep first. A list of these in the folder .kbuild tells them from
// files of the user.
func (p *Project) keepCode(ctx context.Context, t *Tree, want []graph.ActionID, kinds []string) error {
	dir := filepath.Join(filepath.Dir(t.state), keepDir)
	if err := removeKept(t.state); err != nil {
		return fmt.Errorf("clearing %s: %w", dir, err)
	}
	var codes []string // outputs of actions
	list := outputList{Outputs: map[string]string{}}
	sass := slices.Contains(kinds, "sass")
	for _, id := range p.Graph.Closure(want) {
		a := p.Graph.Actions[id]
		for _, o := range a.Outputs {
			disassembled := sass && path.Ext(o) == ".cubin"
			if !a.Intermediate || a.Transient || !disassembled && !slices.Contains(kinds, strings.TrimPrefix(path.Ext(o), ".")) {
				continue
			}
			name := keptName(p.Graph.BuildDir, o)
			codes = append(codes, o)
			list.Outputs[path.Join(p.Graph.BuildDir, keepDir, name)] = name
			if disassembled {
				list.Outputs[path.Join(p.Graph.BuildDir, keepDir, sassOf(name))] = sassOf(name)
			}
		}
	}
	if err := regular.Replace(filepath.Join(t.state, keptList), list.encode()); err != nil {
		return err
	}
	for _, code := range codes {
		name := filepath.Join(dir, keptName(p.Graph.BuildDir, code))
		if err := t.Runner.CopyIntermediate(ctx, code, name); err != nil {
			return fmt.Errorf("keeping %s: %w", code, err)
		}
		if sass && path.Ext(code) == ".cubin" {
			if err := p.disassemble(ctx, name); err != nil {
				return err
			}
			if !slices.Contains(kinds, "cubin") {
				os.Remove(name)
			}
		}
	}
	return nil
}

// removeKept removes the files that the last --keep wrote.
func removeKept(state string) error {
	list, _ := readOutputList(filepath.Join(state, keptList))
	if len(list.Outputs) == 0 {
		return nil
	}
	tree, err := os.OpenRoot(filepath.Dir(state))
	if err != nil {
		return err
	}
	defer tree.Close()
	var names []string
	for _, name := range list.Outputs { // whose paths may be those of another name of the tree
		names = append(names, path.Join(keepDir, name))
	}
	for _, name := range names {
		if err := tree.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	removeEmptyFolders(tree, foldersAbove(names))
	return nil
}

// sassOf returns the name of a cubin's machine code as text, which is beside the cubin.
func sassOf(cubin string) string { return strings.TrimSuffix(cubin, "cubin") + "sass" }

// keptName returns executable.app/src/a.cu.sm_80.cubin for
// obj/executable.app/src/a.cu.o/sm_80.cubin.
func keptName(buildDir, file string) string {
	file = strings.TrimPrefix(file, buildDir+"/"+graph.PartsDir+"/")
	file = strings.TrimPrefix(file, "obj/")
	return strings.TrimSuffix(path.Dir(file), ".o") + "." + path.Base(file)
}

// disassemble writes the machine code of a cubin as text.
func (p *Project) disassemble(ctx context.Context, cubin string) error {
	argv := append(p.Facts.Toolchains()["cuda"].Info().Disassemble, cubin)
	if _, err := os.Stat(argv[0]); err != nil {
		name := filepath.Base(argv[0])
		if argv[0], err = exec.LookPath(name); err != nil {
			return fmt.Errorf("--keep sass needs %s, which comes with the toolkit: %w", name, err)
		}
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, errs.String())
	}
	return os.WriteFile(sassOf(cubin), out.Bytes(), 0o666)
}
