package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// keepCode puts the device code between the passes of nvcc under build/keep: what --keep asks for.
func (s *session) keepCode(ctx context.Context, t *tree, want []graph.ActionID) error {
	kinds := s.cli.KeepCode
	dir := filepath.Dir(filepath.Clean(s.cli.state(s.project, ""))) + "/keep"
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing %s: %w", dir, err)
	}
	for _, id := range s.graph.Closure(want) {
		a := s.graph.Actions[id]
		if !a.Part || a.Transient {
			continue
		}
		for _, o := range a.Outputs {
			kind := strings.TrimPrefix(path.Ext(o), ".")
			sass := kind == "cubin" && slices.Contains(kinds, "sass")
			if !sass && !slices.Contains(kinds, kind) {
				continue
			}
			name := filepath.Join(dir, keptName(s.graph.BuildDir, o))
			if err := t.runner.CopyPart(ctx, o, name); err != nil {
				return fmt.Errorf("keeping %s: %w", o, err)
			}
			if sass {
				if err := s.disassemble(ctx, name); err != nil {
					return err
				}
			}
			if !slices.Contains(kinds, kind) {
				os.Remove(name)
			}
		}
	}
	return nil
}

// keptName is executable.app/src/a.cu.sm_80.cubin for the part obj/executable.app/src/a.cu.o/sm_80.cubin.
func keptName(buildDir, part string) string {
	part = strings.TrimPrefix(part, buildDir+"/"+graph.PartsDir+"/")
	part = strings.TrimPrefix(part, "obj/")
	return strings.TrimSuffix(path.Dir(part), ".o") + "." + path.Base(part)
}

// disassemble writes the machine code of a cubin as text beside it.
func (s *session) disassemble(ctx context.Context, cubin string) error {
	nvdisasm := filepath.Join(filepath.Dir(s.facts.CUDA.Programs["ptxas"]), "nvdisasm")
	if _, err := os.Stat(nvdisasm); err != nil {
		if nvdisasm, err = exec.LookPath("nvdisasm"); err != nil {
			return fmt.Errorf("--keep sass needs nvdisasm, which comes with the toolkit: %w", err)
		}
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, nvdisasm, "-c", cubin)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s -c %s: %w: %s", nvdisasm, cubin, err, errs.String())
	}
	return os.WriteFile(strings.TrimSuffix(cubin, "cubin")+"sass", out.Bytes(), 0o666)
}
