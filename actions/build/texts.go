package build

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
		if comments, files := r.takenIn(a, text); comments != nil {
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

// conditions are what a record depends on besides files of the project: the values of macros that the text used,
// and the true text if the command said something about it.
func (r *Runner) conditions(a *graph.Action, found []cache.FileDigest, used []string, said bool) []cache.FileDigest {
	if a.Kind != graph.Preprocess {
		used = r.mentioned(a, found)
	}
	var out []cache.FileDigest
	for _, m := range used {
		out = append(out, cache.FileDigest{Path: macroMark + m, Digest: macroValue(a, m)})
	}
	if said {
		for i, w := range a.Step().DiagnosticInputs {
			d, _ := r.digest(w) // without one the record never holds
			out = append(out, cache.FileDigest{Path: weakName(i), Digest: d})
		}
	}
	return out
}

// A record names macros and weak inputs that it depends on among the files that it discovered. A weak input goes by its place in
// Step.DiagnosticInputs: its file has another name where another architecture comes last, and in another target or build tree.
const (
	macroMark = "-D"
	weakMark  = "<weak "
	neverMark = "<never> " // what cannot be known, in words: the action runs each time
)

// never is a condition that no day fulfils.
func never(why string) cache.FileDigest { return cache.FileDigest{Path: neverMark + why} }

// runsEachTime says why the action of a record does, "" if it does not.
func runsEachTime(rec *cache.Record) string {
	for _, f := range rec.Discovered {
		if why, ok := strings.CutPrefix(f.Path, neverMark); ok {
			return why
		}
	}
	return ""
}

func weakName(i int) string { return fmt.Sprintf("%s%d>", weakMark, i) }

// isCondition tells a macro, a weak input or another condition from a file.
func isCondition(name string) bool {
	return strings.HasPrefix(name, macroMark) || strings.HasPrefix(name, weakMark) || strings.HasPrefix(name, neverMark) || name == loaderMark
}

// weakInput is the file that a condition stands for today; ok is false if it stands for none.
func weakInput(a *graph.Action, name string) (file string, ok bool) {
	for i, w := range a.Step().DiagnosticInputs {
		if name == weakName(i) {
			return w, true
		}
	}
	return "", false
}

// today is the content of what a record of a discovered, by the name that it has there. Nothing that a part makes is discovered by
// name: which parts there are is another plan's affair.
func (r *Runner) today(a *graph.Action, name string) (cache.Digest, error) {
	if m, ok := strings.CutPrefix(name, macroMark); ok {
		return macroValue(a, m), nil
	}
	if w, ok := weakInput(a, name); ok {
		return r.digest(w)
	}
	if name == loaderMark {
		d, _ := r.loaderConf()
		return d, nil
	}
	if strings.HasPrefix(name, weakMark) || strings.HasPrefix(name, neverMark) || r.isPart(name) {
		return cache.Digest{}, fs.ErrNotExist
	}
	return r.digest(name)
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
	today := &Runner{Root: r.Root, Listing: cache.NewListing(r.Root)} // of this moment
	return today.shadowed(rec) == "" && !slices.ContainsFunc(rec.Absent, func(p string) bool {
		if strings.HasSuffix(p, "/") {
			return r.isFile(p)
		}
		_, err := os.Lstat(r.abs(p))
		return err == nil
	})
}

// macroValue is a digest over what a command defines a macro as.
func macroValue(a *graph.Action, name string) cache.Digest {
	for _, arg := range a.Argv {
		if v, ok := strings.CutPrefix(arg, "-D"+name+"="); ok {
			return sha256.Sum256([]byte(v))
		}
	}
	return cache.Digest{}
}

// mentioned are the macros of a whose names stand in a file that it read.
func (r *Runner) mentioned(a *graph.Action, found []cache.FileDigest) []string {
	if len(a.Step().Macros) == 0 {
		return nil
	}
	var files []string
	for _, f := range found {
		files = append(files, f.Path)
	}
	for _, s := range a.Step().Staged {
		if s.From != "" {
			files = append(files, s.From)
		}
	}
	for _, arg := range a.Argv {
		if path.Base(arg) == "link.stub" {
			files = append(files, arg)
		}
	}
	var used []string
	for _, f := range files {
		for _, m := range a.Step().Macros {
			if !slices.Contains(used, m) && r.mentions(f, m) {
				used = append(used, m)
			}
		}
	}
	return used
}

// mentions reports a name in a file; a file that cannot be read may hold any. The toolkit's headers are asked for
// again and again, so their answers are remembered.
func (r *Runner) mentions(file, name string) bool {
	key := [2]string{file, name}
	r.mu.Lock()
	yes, known := r.found[key]
	r.mu.Unlock()
	if known {
		return yes
	}
	text, err := regular.Append(r.buffer(), r.abs(file))
	yes = err != nil || bytes.Contains(text, []byte(name))
	r.buffers.Put(&text)
	if filepath.IsAbs(file) {
		r.mu.Lock()
		if r.found == nil {
			r.found = map[[2]string]bool{}
		}
		r.found[key] = yes
		r.mu.Unlock()
	}
	return yes
}
