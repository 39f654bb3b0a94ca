package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

type inspectCmd struct {
	Files []string `arg:"" help:"Objects, archives, libraries, programs; cubins, PTX, fatbins, HIP code objects and bundles."`
}

// Run lists each image with its member, architecture and kind. For files that hold only device code
// it also lists the kernels.
func (cmd inspectCmd) Run(c *cli) error {
	for _, name := range cmd.Files {
		if err := inspectFile(c, filepath.Clean(c.seen(name))); err != nil {
			return err
		}
	}
	return nil
}

// bareCode lists the kinds of files that hold only device code.
var bareCode = []fatbin.Kind{fatbin.Cubin, fatbin.Fatbin, fatbin.Bundle, fatbin.CodeObject}

func inspectFile(c *cli, name string) error {
	f, err := fatbin.ReadFile(name)
	if err == nil && !slices.Contains(bareCode, f.Kind) {
		return showFile(c, name, f)
	}
	text, readErr := regular.Read(name)
	if readErr != nil {
		return readErr
	}
	a, unlike := modules.Describe(text)
	switch {
	case unlike == nil:
		title := a.Kind
		if err == nil {
			title = f.Kind.String()
		}
		return showArtifact(c, name, title, a, f)
	case err == nil:
		return showFile(c, name, f)
	}
	return err
}

func showFile(c *cli, name string, f fatbin.File) error {
	if c.JSON {
		return c.out.Event(map[string]any{"event": "file", "file": name, "kind": f.Kind.String(), "members": f.Members})
	}
	fmt.Fprintf(c.out, "%s: %s\n", name, f.Kind)
	showMembers(c, f)
	return nil
}

func showMembers(c *cli, f fatbin.File) {
	for _, m := range f.Members {
		for _, img := range m.Images {
			fmt.Fprintf(c.out, "  %-32s %-14s %s\n", term.Name(m.Name), img.Code(), strings.Join(aboutImage(m, img), ", "))
		}
	}
}

// aboutImage describes an image: its size, its kind unless the code name implies it, and whether it
// is relocatable.
func aboutImage(m fatbin.Member, img fatbin.Image) []string {
	size := fmt.Sprintf("%8d bytes", img.Size)
	if img.Size == 0 && img.Unpacked > 0 {
		size = fmt.Sprintf("%8d bytes unpacked", img.Unpacked)
	}
	about := []string{size}
	if slices.Contains([]gencode.Kind{gencode.GFX, gencode.Bitcode, gencode.SPIRV}, img.Kind) {
		about = append(about, img.Kind.String())
	}
	if m.Relocatable && img.Kind != gencode.GFX && img.Kind != gencode.SPIRV {
		about = append(about, "relocatable")
	}
	if m.NewDriver {
		about = append(about, "of the new offload driver")
	}
	return about
}

// showArtifact shows a file in a format that modules emit. f holds the members, if they could be
// parsed.
func showArtifact(c *cli, name, title string, a modinfo.Artifact, f fatbin.File) error {
	if a.Images == nil {
		a.Images = []modinfo.Image{{Kind: a.Kind, Arch: a.Arch, Kernels: a.Kernels}}
	}
	if c.JSON {
		return c.out.Event(map[string]any{"event": "file", "file": name, "kind": a.Kind, "members": f.Members, "images": a.Images})
	}
	fmt.Fprintf(c.out, "%s: %s\n", name, strings.TrimSpace(title+" "+a.Arch))
	showMembers(c, f)
	for _, img := range a.Images {
		for _, k := range img.Kernels {
			fmt.Fprintf(c.out, "  %-12s %5d bytes in %d parameters  %s\n", img.Arch, k.ParamBytes, len(k.Params), term.Name(k.Demangled))
		}
	}
	return nil
}
