package execute

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// canonicalizer makes the canonical forms of preprocessed texts.
type canonicalizer struct {
	incbins func(a *graph.Action, text []byte) (comments []byte, files []cache.FileDigest) // that the assembler takes in: see discover
	isRead  func(output string) bool                                                       // by the command of some action
	base    string                                                                         // see pptext.Options
	buffers sync.Pool                                                                      // of *[]byte
}

// canonicalTexts is what became of texts: outputs by name that need no file, since nobody reads
// them, or are digested already; the macros that a text used, and what the assembler will take in.
type canonicalTexts struct {
	outputs map[string]cache.Output
	used    []string
	incbins []cache.FileDigest
}

// of makes the canonical forms of what a command wrote. Texts are large and most are only wanted
// for their digests, so each is read once, and a file is left where some command reads it.
func (c *canonicalizer) of(a *graph.Action, dir scratch) (canonicalTexts, error) {
	m := canonicalTexts{outputs: map[string]cache.Output{}}
	for i, o := range a.Outputs {
		raw := a.Kind == graph.Preprocess && i == 0
		canon := slices.IndexFunc(a.Step().CanonicalForms, func(t graph.CanonicalForm) bool { return t.Raw == o })
		stub := strings.HasSuffix(o, ".stub.c")
		code := a.Kind == graph.Cudafe && i == 0
		if !raw && canon < 0 && !stub && !code {
			continue
		}
		name := dir.output(i, o)
		text, err := regular.Append(c.buffer(), name)
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
		case stub: // names itself, in line markers
			text, changed = bytes.ReplaceAll(text, []byte(dir.seen().output(i, o)), []byte(nvcc.StubName)), true
		}
		if comments, files := c.incbins(a, text); comments != nil {
			text, changed = append(text, comments...), true
			m.incbins = append(m.incbins, files...)
		}
		if err := c.finish(a, m, name, o, text, changed); err != nil {
			return m, err
		}
		if raw && files != "" {
			list := listFiles(text, placed, a.Step().WithoutSystem)
			if err := os.WriteFile(dir.output(slices.Index(a.Outputs, files), files), []byte(list), 0o666); err != nil {
				return m, err
			}
		}
		if canon >= 0 {
			t := a.Step().CanonicalForms[canon]
			out, _ := pptext.AppendCanonical(c.buffer(), text,
				pptext.Options{DropFalse: t.DropFalse, Base: c.base})
			if err := c.finish(a, m, dir.output(slices.Index(a.Outputs, t.Canon), t.Canon), t.Canon, out, true); err != nil {
				return m, err
			}
			c.buffers.Put(&out)
		}
		c.buffers.Put(&text)
	}
	return m, nil
}

// listFiles lists the files that a text is of, behind a line that says whether it is of the place
// of its base.
func listFiles(text []byte, placed, withoutSystem bool) string {
	first := Anywhere
	if placed {
		first = Placed
	}
	return strings.Join(append([]string{first}, pptext.Files(text, withoutSystem)...), "\n")
}

// Anywhere and Placed are the first lines of the list of a text's files: see pptext.Placed.
const (
	Anywhere = "*anywhere"
	Placed   = "*placed"
)

// finish notes the digest of an output, and writes its file if it is new and somebody reads it.
func (c *canonicalizer) finish(a *graph.Action, m canonicalTexts, name, output string, text []byte, changed bool) error {
	m.outputs[output] = cache.Output{Path: output, Digest: sha256.Sum256(text), Size: int64(len(text)), Unkept: a.Transient}
	switch {
	case a.Transient && !c.isRead(output):
		os.Remove(name)
		return nil
	case changed:
		return os.WriteFile(name, text, 0o666)
	}
	return nil
}

// buffer is an empty slice with room, mostly.
func (c *canonicalizer) buffer() []byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 64<<10)
}
