// Package inprocess does the work of the kinds of actions that need no command: it copies files,
// joins host and device code, cuts objects for device links, and writes the manifests and sources
// of modules. When an action runs, and what becomes of its outputs, is known to package execute.
package inprocess

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// Method is part of the keys of actions that kbuild does itself: joined and sliced objects,
// canonical texts, manifests of modules. Raise it when one of their outputs changes.
const Method = "4"

// kinds holds what is done for each kind that runs in this process.
var kinds = map[graph.Kind]func(Work) error{
	graph.Copy:       func(w Work) error { return regular.Copy(w.abs(w.Inputs[0]), w.Files[0]) },
	graph.Embed:      embed,
	graph.Manifest:   writeManifest,
	graph.References: references,
	graph.Extract:    extract,
	graph.Join:       join,
	graph.Slice:      slice,
	graph.HostRefs:   writeHostRefs,
}

// Work is an action that runs in this process.
type Work struct {
	*graph.Action
	Root  string   // of the project
	Files []string // where to write the outputs
	// of a manifest: the digest of everything that the artifacts are built from
	MadeFrom string
}

// Run writes the outputs of an action.
func Run(w Work) error { return kinds[w.Kind](w) }

// WriteKey writes to the key of an action what changes its outputs and is neither an argument nor
// an input.
func WriteKey(w cache.KeyWriter, a *graph.Action) {
	if a.Kind.Info().Cuts {
		w.Field("arch", a.Archs[0]) // other kinds have it in their arguments
	}
	w.Field("method", Method)
	if a.Kind == graph.Embed {
		w.Field("header", fmt.Sprintf("%x", sha256.Sum256([]byte(artifactHeader))))
	}
}

func (w Work) abs(file string) string { return cache.Absolute(w.Root, file) }

func (w Work) read(file string) ([]byte, error) { return regular.Read(w.abs(file)) }

func (w Work) write(i int, content []byte) error { return os.WriteFile(w.Files[i], content, 0o666) }

// extract writes the files of a pack.
func extract(w Work) error {
	pack, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	files, err := fileset.Unpack(pack)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Inputs[0], err)
	}
	expected := func(f fileset.File, name string) bool {
		return path.Join(w.Argv[0], f.Name) == name
	}
	if !slices.EqualFunc(files, w.Outputs, expected) {
		return fmt.Errorf("the command of %s (%s) wrote other files than when this build was "+
			"planned: build again", w.Target, w.Pos)
	}
	for i, f := range files {
		if err := w.write(i, f.Content); err != nil {
			return err
		}
		if f.Exec {
			if err := os.Chmod(w.Files[i], 0o777); err != nil {
				return err
			}
		}
	}
	return nil
}

// join builds the object that nvcc, hipcc or clang would build: host code with the device code
// of all architectures.
func join(w Work) error {
	host, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	code, err := w.read(w.Inputs[1])
	if err != nil {
		return err
	}
	var out []byte
	switch w.Work.Container {
	case graph.ClangBundle:
		out, err = fatbin.BundleCode.Fill(host, graph.Placeholder, code)
	case graph.ClangFatbin:
		out, err = fatbin.CUDACode.Fill(host, graph.Placeholder, code)
	case graph.ClangOffload:
		out, err = fatbin.OffloadCode.Fill(host, graph.Placeholder, code)
	default:
		out, err = fatbin.WithFatbin(host, code)
	}
	if err != nil {
		return fmt.Errorf("joining the host and device code of %s: %w", w.Name, err)
	}
	return w.write(0, out)
}

// slice cuts out of an object or archive what a device link of one architecture reads. It
// copies a file that it cannot parse.
func slice(w Work) error {
	whole, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	code, err := gencode.Parse(w.Archs[0])
	if err != nil {
		panic("BUG: a slice for " + w.Archs[0])
	}
	cut := fatbin.ForLink
	if strings.HasSuffix(w.Inputs[0], ".a") {
		cut = fatbin.ArchiveForLink
	}
	out, err := cut(whole, code)
	if err != nil {
		out = whole
	}
	return w.write(0, out)
}

// references writes PTX that refers to the functions that a piece of LTO-IR defines, and has
// bodies for those in its arguments.
func references(w Work) error {
	text, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	out, err := modules.References(text, w.Argv[min(1, len(w.Argv)):])
	if err != nil {
		return fmt.Errorf("%s: %w", w.Inputs[0], err)
	}
	return w.write(0, out)
}

// writeManifest writes the manifest of a module, which describes its artifacts.
func writeManifest(w Work) error {
	var m modinfo.Manifest
	if err := json.Unmarshal([]byte(*w.Work.Manifest), &m); err != nil {
		return fmt.Errorf("BUG: the manifest of %s: %w", w.Target, err)
	}
	m.InputDigest, m.Kbuild = w.MadeFrom, cache.KeyVersion
	symbols, dir := w.Argv[1:], path.Dir(w.Outputs[0])
	for i := range m.Artifacts {
		art := &m.Artifacts[i]
		err := w.describe(art, path.Join(dir, art.File))
		// its symbols are in the PTX that was built beside it
		if err == nil && art.Kind == "ltoir" {
			var text []byte
			if text, err = w.read(symbols[0]); err == nil {
				art.LTOSymbols, err = modules.LTOSymbols(text)
			}
			symbols = symbols[1:]
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(dir, art.File), err)
		}
	}
	m.Complete()
	return w.write(0, m.Encode())
}

// describe fills in art from the artifact's file.
func (w Work) describe(art *modinfo.Artifact, name string) error {
	file, err := w.read(name)
	if err != nil {
		return err
	}
	found, err := modules.Describe(file)
	if err != nil {
		return err
	}
	if found.Kind != art.Kind || !modules.SameArch(art.Kind, art.Arch, found.Arch) {
		return fmt.Errorf("it should be %s %s, and is %s %s", art.Kind, art.Arch, found.Kind, found.Arch)
	}
	found.File, found.Arch = art.File, art.Arch
	*art = found
	return nil
}

// artifactHeader is the first part of every header of an embedded module. It declares the entries
// of a table and the lookup of one.
//
//go:embed artifact.h
var artifactHeader string

// embedded is one artifact of a module.
type embedded struct {
	variant, source, arch, kind string
	path                        string
	size                        int64
}

// embed writes the C source and the header of an embedded module.
func embed(w Work) error {
	var list []embedded
	for f := range slices.Chunk(w.Argv[2:], 5) {
		info, err := os.Stat(w.abs(f[4]))
		if err != nil {
			return fmt.Errorf("embedding %s: %w", w.Name, err)
		}
		list = append(list, embedded{f[0], f[1], f[2], f[3], f[4], info.Size()})
	}
	if err := w.write(0, []byte(embedSource(w.Argv[1], list))); err != nil {
		return err
	}
	return w.write(1, []byte(embedHeader(w.Argv[1], len(list))))
}

func embedHeader(symbol string, entries int) string {
	return fmt.Sprintf(`/* Made by kbuild. */
%[1]s
#ifndef KBUILD_EMBED_%[2]s
#define KBUILD_EMBED_%[2]s

#ifdef __cplusplus
extern "C" {
#endif

/* The artifacts of a module, %[3]d of them, then an entry whose data is NULL. */
extern const struct kbuild_artifact %[2]s[%[4]d];

#ifdef __cplusplus
}
#endif

#endif
`, artifactHeader, symbol, entries, entries+1)
}

// embedSource returns the table in C. The assembler includes the bytes, with directives that it has
// on every processor. Its labels are not global, so tables do not collide.
func embedSource(symbol string, list []embedded) string {
	var data, table strings.Builder
	for i, e := range list {
		label := fmt.Sprintf("%s_%d", symbol, i)
		directive := fmt.Sprintf("\t.balign 16\n%s:\n\t.incbin %s\n\t.byte 0\n", label, cString(e.path))
		fmt.Fprintf(&data, "\n\t%s", cString(directive))
		fmt.Fprintf(&table, "\t{%s, %s, %s, %s, KBUILD_%s, %s, %s, %d},\n",
			cString(path.Base(e.path)), cString(e.variant), cString(e.source), cString(e.arch),
			strings.ToUpper(e.kind), archNumbers(e.arch), label, e.size)
	}
	var externs strings.Builder
	for i := range list {
		fmt.Fprintf(&externs, "extern const unsigned char %s_%d[];\n", symbol, i)
	}
	return fmt.Sprintf(`/* Made by kbuild. */
#include "%[1]s.h"

__asm__(
	".pushsection .rodata\n"%[2]s
	".popsection\n");

%[3]s
const struct kbuild_artifact %[1]s[%[4]d] = {
%[5]s	{0, 0, 0, 0, 0, 0, 0, 0, 0},
};
`, symbol, data.String(), externs.String(), len(list)+1, table.String())
}

// archNumbers returns the number and the suffix of an architecture in C.
func archNumbers(arch string) string {
	c, err := gencode.Parse(arch)
	if err != nil || c.Num == 0 {
		return "0, 0"
	}
	if c.Suffix == "" {
		return fmt.Sprintf("%d, 0", c.Num)
	}
	return fmt.Sprintf("%d, '%s'", c.Num, c.Suffix)
}

// cString quotes s for C and for the GNU assembler, which read escapes alike.
func cString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == '?': // a question mark could begin a trigraph
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
