package execute

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// made is what texts found: outputs by name that need no file, since nobody reads them, or are digested already;
// the macros that a text used, and what the assembler will take in.
type made struct {
	outputs map[string]cache.Output
	used    []string
	taken   []cache.FileDigest // what the assembler will take in for them
}

// texts makes the canonical forms of what a command wrote. Texts are large and most are only wanted for their
// digests, so each is read once, and a file is left where some command reads it.
func (r *Runner) texts(a *graph.Action, dir scratch) (made, error) {
	m := made{outputs: map[string]cache.Output{}}
	for i, o := range a.Outputs {
		raw := a.Kind == graph.Preprocess && i == 0
		canon := slices.IndexFunc(a.Step().CanonicalForms, func(t graph.CanonicalForm) bool { return t.Raw == o })
		stub := strings.HasSuffix(o, ".stub.c")
		code := a.Kind == graph.Cudafe && i == 0
		if !raw && canon < 0 && !stub && !code {
			continue
		}
		name := dir.output(i, o)
		text, err := regular.Append(r.buffer(), name)
		if err != nil {
			return m, err
		}
		changed := false
		switch {
		case raw && len(a.Step().Macros) > 0:
			var used map[string]bool
			text, used = pptext.TakeMacros(text, a.Step().Macros...)
			m.used, changed = slices.Sorted(maps.Keys(used)), true
		case stub: // names itself, in line markers
			text, changed = bytes.ReplaceAll(text, []byte(r.relative(dir).output(i, o)), []byte(nvcc.StubName)), true
		}
		if comments, files := r.discovery.IncbinDigests(a, text); comments != nil {
			text, changed = append(text, comments...), true
			m.taken = append(m.taken, files...)
		}
		if err := r.settleText(a, m, name, o, text, changed); err != nil {
			return m, err
		}
		if canon >= 0 {
			t := a.Step().CanonicalForms[canon]
			buf := bytes.NewBuffer(r.buffer())
			if _, err := pptext.Canonical(buf, text, pptext.Options{DropFalse: t.DropFalse, Clang: t.Clang}); err != nil {
				return m, err
			}
			out := buf.Bytes()
			if err := r.settleText(a, m, dir.output(slices.Index(a.Outputs, t.Canon), t.Canon), t.Canon, out, true); err != nil {
				return m, err
			}
			r.buffers.Put(&out)
		}
		r.buffers.Put(&text)
	}
	return m, nil
}

// settleText notes the digest of an output, and writes its file if it is new and somebody reads it.
func (r *Runner) settleText(a *graph.Action, m made, name, output string, text []byte, changed bool) error {
	m.outputs[output] = cache.Output{Path: output, Digest: sha256.Sum256(text), Size: int64(len(text)), Unkept: a.Transient}
	switch {
	case a.Transient && !r.isRead(output):
		os.Remove(name)
		return nil
	case changed:
		return os.WriteFile(name, text, 0o666)
	}
	return nil
}

// isRead reports whether the command of some action reads a part's output.
func (r *Runner) isRead(output string) bool {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	r.count()
	return r.parts.read[output]
}

// buffer is an empty slice with room, mostly.
func (r *Runner) buffer() []byte {
	if b, ok := r.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 64<<10)
}

// followed reports whether the source and the headers of a preprocessed text are still what they were when it was made: a
// command that began at start has read them for itself.
func (r *Runner) followed(text string, start cache.Moment) bool {
	pre, rec := r.maker(text), r.Journal.Last(text)
	if pre == nil || rec == nil {
		return false
	}
	read := slices.Clone(rec.Discovered)
	for _, in := range pre.Inputs {
		for _, f := range rec.Fields {
			if f.Name == "input "+in {
				d, err := cache.ParseDigest(f.Value)
				if err != nil {
					return false
				}
				read = append(read, cache.FileDigest{Path: in, Digest: d})
			}
		}
	}
	for _, f := range read {
		since := start
		if r.maker(f.Path) != nil {
			since = cache.Moment{}
		}
		if !r.Files.Unchanged(f.Path, f.Digest, since) {
			return false
		}
	}
	return r.discovery.StillAbsent(rec)
}

// stillTaken reports that what the assembler took in for the host code of nvcc is what the key of a says.
func (r *Runner) stillTaken(a *graph.Action, start cache.Moment) bool {
	for _, in := range a.Inputs {
		maker := r.maker(in)
		if a.Kind != graph.HostPart || maker == nil || maker.Kind != graph.Cudafe {
			continue
		}
		rec := r.Journal.Last(maker.Outputs[0])
		if rec == nil {
			return false
		}
		for _, f := range rec.Discovered {
			if !discover.IsCondition(f.Path) && !r.Files.Unchanged(f.Path, f.Digest, start) {
				return false
			}
		}
	}
	return true
}
