package execute

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// canonicalizer builds the canonical forms of preprocessed texts.
type canonicalizer struct {
	discovery     *discover.Discovery
	intermediates *intermediates
	base          string    // see pptext.Options
	buffers       sync.Pool // of *[]byte
}

// canonicalTexts is the result of canonicalizing the outputs of a command. outputs has the digests
// that are known already; such an output has no file if no command reads it. used lists the macros
// that a text used, and incbins the files that the assembler will include.
type canonicalTexts struct {
	outputs map[string]cache.Output
	used    []string
	incbins []cache.FileDigest
}

// of canonicalizes the files that a command wrote. Texts are large, and most are needed only for
// their digests. So each is read once, and its file is kept only if some command reads it.
func (c *canonicalizer) of(a *graph.Action, dir scratch) (canonicalTexts, error) {
	m := canonicalTexts{outputs: map[string]cache.Output{}}
	writes := a.Kind.Info().Writes
	for i, o := range a.Outputs {
		raw := writes == graph.FormText && i == 0
		canon := slices.IndexFunc(a.Step().CanonicalForms, func(t graph.CanonicalForm) bool {
			return t.Raw == o
		})
		stub := strings.HasSuffix(o, ".stub.c")
		code := writes == graph.FormHost && i == 0
		if !raw && canon < 0 && !stub && !code {
			continue
		}
		text, err := regular.Append(c.buffer(), dir.output(i, o))
		if err != nil {
			return m, err
		}
		changed, files := false, a.Step().FilesOutput
		placed := raw && files != "" && (c.base == "" || pptext.Placed(text, c.base))
		switch {
		case raw && (len(a.Step().Macros) > 0 || files != ""):
			var used map[string]bool
			text, used = pptext.TakeMacros(text, a.Step().Macros...)
			m.used, changed = slices.Sorted(maps.Keys(used)), true
		case stub: // a stub names itself in line markers
			itself := []byte(dir.relative().output(i, o))
			text, changed = bytes.ReplaceAll(text, itself, []byte(nvcc.StubName)), true
		}
		if comments, files := c.discovery.IncbinDigests(a, text); comments != nil {
			text, changed = append(text, comments...), true
			m.incbins = append(m.incbins, files...)
		}
		if err := c.finish(a, dir, m, o, text, changed); err != nil {
			return m, err
		}
		if raw && files != "" {
			list := []string{Anywhere}
			if placed {
				list[0] = Placed
			}
			list = append(list, pptext.Files(text, a.Step().WithoutSystem)...)
			lines := []byte(strings.Join(list, "\n"))
			if err := os.WriteFile(dir.named(a, files), lines, 0o666); err != nil {
				return m, err
			}
		}
		if canon >= 0 {
			t := a.Step().CanonicalForms[canon]
			out, _ := pptext.AppendCanonical(c.buffer(), text,
				pptext.Options{DropFalse: t.DropFalse, Base: c.base})
			if err := c.finish(a, dir, m, t.Canon, out, true); err != nil {
				return m, err
			}
			c.buffers.Put(&out)
		}
		c.buffers.Put(&text)
	}
	return m, nil
}

// Anywhere and Placed are the first lines of the list of the files that a text comes from. Placed
// means that the text depends on the place of its base: see pptext.Placed.
const (
	Anywhere = "*anywhere"
	Placed   = "*placed"
)

// finish stores the digest of an output. It writes the file if the text changed and some command
// reads it.
func (c *canonicalizer) finish(
	a *graph.Action, dir scratch, m canonicalTexts, output string, text []byte, changed bool,
) error {
	m.outputs[output] = cache.Output{Path: output, Digest: sha256.Sum256(text),
		Size: int64(len(text)), Unkept: a.Transient}
	switch {
	case a.Transient && !c.intermediates.isRead(output):
		os.Remove(dir.named(a, output))
	case changed:
		return os.WriteFile(dir.named(a, output), text, 0o666)
	}
	return nil
}

// buffer returns an empty slice, usually one with capacity from the pool.
func (c *canonicalizer) buffer() []byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 64<<10)
}
