package execute

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// capture returns the record of what the command wrote and read. stable is false if an input
// changed during the run: then the outputs are used but not recorded.
func (r *Runner) capture(
	ctx context.Context, a *graph.Action, key actionKey, res sched.Result, dir scratch,
	start cache.Moment,
) (rec *cache.Record, stable bool, err error) {
	if k := a.Work.Keep; k != nil {
		for i, kept := range k.Files {
			err := os.Rename(filepath.Join(dir.file("keep"), kept), dir.output(i, a.Outputs[i]))
			if err != nil {
				return nil, false, fmt.Errorf("the command ended well and did not leave %s: %w",
					kept, err)
			}
		}
	}
	if d := a.Pass().DepfileOutput; d != "" {
		if err := regular.Copy(dir.depfile(), dir.named(a, d)); err != nil {
			return nil, false, fmt.Errorf("the command ended well and did not write its "+
				"dependency file: %w", err)
		}
	}
	if a.Kind.Info().CompilesSource() {
		if err := r.takeTimeTraces(a, dir); err != nil {
			return nil, false, err
		}
	}
	texts, err := r.canonical.of(a, dir)
	if err != nil {
		return nil, false, fmt.Errorf("the command ended well and did not write its output: %w", err)
	}
	rec = &cache.Record{Command: key.key, Fields: r.keys.fields(a, key), Made: start.Time,
		Text: string(res.Output), Elapsed: res.Elapsed, CPU: res.CPU, MaxRSS: res.MaxRSS}
	for i, o := range a.Outputs {
		out, ok := texts.outputs[o]
		if !ok {
			if out, err = digestOutput(r.outputFile(a, i, dir), o); err != nil {
				return nil, false, fmt.Errorf("the command ended well and did not write %s: %w",
					o, err)
			}
		}
		rec.Outputs = append(rec.Outputs, out)
	}
	stable = r.stability.inputs(a, key.inputs, start)
	found, err := r.discovery.Find(ctx, discover.Ran{
		Action: a, Depfile: dir.depfile(), Trace: dir.traceFile(), Scratch: dir.file("expanded"),
		Folders: []string{dir.tmp, dir.dir}, Staged: dir.rel, Start: start, Files: r.Files,
	}, rec)
	if err == nil {
		err = r.generated.undeclared(a, rec.Discovered)
	}
	rec.Discovered = append(rec.Discovered,
		r.discovery.Conditions(a, rec.Discovered, texts.used, len(res.Output) > 0)...)
	return rec, stable && found, err
}

// outputFile returns the file that the command of a writes output i to.
func (r *Runner) outputFile(a *graph.Action, i int, dir scratch) string {
	if a.InPlace {
		return r.abs(a.Outputs[i])
	}
	return dir.output(i, a.Outputs[i])
}

func digestOutput(file, name string) (cache.Output, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return cache.Output{}, err
	}
	if !info.Mode().IsRegular() {
		return cache.Output{}, fmt.Errorf("%s is no regular file", name)
	}
	d, err := cache.DigestFile(file)
	return cache.Output{Path: name, Digest: d, Size: info.Size(), Exec: info.Mode()&0o100 != 0}, err
}

// canonicalizer builds the canonical forms of preprocessed texts.
type canonicalizer struct {
	intermediates *intermediates
	buffers       sync.Pool // of *[]byte
}

// canonicalTexts is the result of canonicalizing the outputs of a command. outputs has the digests
// that are known already; such an output has no file if no command reads it. used lists the macros
// that a text used.
type canonicalTexts struct {
	outputs map[string]cache.Output
	used    []string
}

// of canonicalizes the files that a command wrote. Texts are large, and most are needed only for
// their digests. So each is read once, and its file is kept only if some command reads it.
func (c *canonicalizer) of(a *graph.Action, dir scratch) (canonicalTexts, error) {
	m := canonicalTexts{outputs: map[string]cache.Output{}}
	writes := a.Kind.Info().Writes
	for i, o := range a.Outputs {
		raw := writes == graph.FormText && i == 0
		canon := slices.IndexFunc(a.Pass().CanonicalForms, func(t graph.CanonicalForm) bool {
			return t.Raw == o
		})
		stub := o == a.Pass().Stub
		code := writes == graph.FormHost && i == 0
		if !raw && canon < 0 && !stub && !code {
			continue
		}
		text, err := regular.Append(c.buffer(), dir.output(i, o))
		if err != nil {
			return m, err
		}
		changed, files := false, a.Pass().FilesOutput
		placed := raw && files != "" && (c.intermediates.Base == "" || pptext.NamesBase(text, c.intermediates.Base))
		switch {
		case raw && (len(a.Pass().Macros) > 0 || files != ""):
			var used map[string]bool
			text, used = pptext.TakeMacros(text, a.Pass().Macros...)
			m.used, changed = slices.Sorted(maps.Keys(used)), true
		case stub: // a stub names itself in line markers
			itself := []byte(dir.relative().output(i, o))
			text, changed = bytes.ReplaceAll(text, itself, []byte(graph.StubName)), true
		}
		if err := c.finish(a, dir, m, o, text, changed); err != nil {
			return m, err
		}
		if raw && files != "" {
			list := []string{Anywhere}
			if placed {
				list[0] = namesBase
			}
			list = append(list, pptext.Files(text, a.Pass().WithoutSystem)...)
			lines := []byte(strings.Join(list, "\n"))
			if err := os.WriteFile(dir.named(a, files), lines, 0o666); err != nil {
				return m, err
			}
		}
		if canon >= 0 {
			t := a.Pass().CanonicalForms[canon]
			out, _ := pptext.AppendCanonical(c.buffer(), text,
				pptext.Options{DropFalse: t.DropFalse, Base: c.intermediates.Base})
			if err := c.finish(a, dir, m, t.Canon, out, true); err != nil {
				return m, err
			}
			c.buffers.Put(&out)
		}
		c.buffers.Put(&text)
	}
	return m, nil
}

// Anywhere and namesBase are the first lines of the list of the files that a text comes from.
// namesBase means that the text depends on the place of its base: see pptext.NamesBase.
const (
	Anywhere  = "*anywhere"
	namesBase = "*placed"
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

// takeTimeTraces moves the time traces of clang's passes to the last outputs of a: one for the host
// and one for each architecture. clang writes the host trace beside the object, if it writes the
// object. It writes the others among its temporary files, under random names. No option sets these
// paths, so another version of clang may use other ones. A missing trace does not fail the compile:
// its output is an empty trace.
func (t *buildTree) takeTimeTraces(a *graph.Action, dir scratch) error {
	last := a.Outputs[len(a.Outputs)-1]
	if slices.Contains(a.Tools, "nvcc") || len(a.Archs) == 0 || !toolchain.IsTimeTrace(a, last) {
		return nil
	}
	patterns := []string{"*.json"}
	for _, arch := range a.Archs {
		patterns = append(patterns, "*/*-"+arch+".json")
	}
	for i, output := range a.Outputs[len(a.Outputs)-len(patterns):] {
		file := t.abs(output)
		if _, err := os.Lstat(file); err == nil {
			continue
		}
		text := []byte(`{"traceEvents":[]}`)
		left, _ := fs.Glob(os.DirFS(dir.tmp), patterns[i])
		if len(left) > 0 {
			var err error
			if text, err = regular.Read(filepath.Join(dir.tmp, left[0])); err != nil {
				return err
			}
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
		t.Forget(output)
	}
	return nil
}

// If a header changes during a compile, kbuild cannot know which version the object was built from.
// So it records nothing about a command whose inputs have times from the command's start on. File
// times advance in ticks of a few milliseconds. A header written just before `kbuild`, by a script
// or an editor that calls it, has the time of its tick. If a command starts in the same tick,
// kbuild cannot tell which came first. So the first command waits until the tick in which this
// kbuild began is over. It mostly is over already: reading a view takes longer.
//
// This is enough for files that kbuild reads before the command starts (cache.Files.Unchanged). The
// last record lists the files that the command will read. Without a record, the command waits for a
// few ticks more. If it then read another file that is too recent, it runs again.

// clock reads the time of files and waits.
type clock interface {
	now() cache.Moment
	sleep(time.Duration)
}

// kernelClock is the clock of the kernel.
type kernelClock struct{}

func (kernelClock) now() cache.Moment     { return cache.Now() }
func (kernelClock) sleep(d time.Duration) { time.Sleep(d) }

const (
	pause = time.Millisecond // the shortest tick
	// more than the longest tick, so that a clock which is set back delays no command for long
	pauses = 50
)

// after waits until files get times later than t, and returns the time.
func after(c clock, t time.Time) cache.Moment {
	now := c.now()
	for range pauses {
		if now.File.After(t) {
			break
		}
		c.sleep(pause)
		now = c.now()
	}
	return now
}

// stability checks whether the inputs that a command read are those that existed when it started.
type stability struct {
	*buildTree
	clock clock
}

// start waits until the command of a may start, and returns that moment. It waits until files get
// times after the start of this kbuild. It waits longer if no record lists what the command reads.
func (s *stability) start(a *graph.Action) cache.Moment {
	rec := s.Records.Last(a.Outputs[0])
	if rec == nil {
		return after(s.clock, s.Begun.Add(cache.FileTick))
	}
	for _, f := range rec.Discovered {
		if !discover.IsCondition(f.Path) {
			s.Digest(f.Path)
		}
	}
	return after(s.clock, s.Begun)
}

// early reports whether a command started so early that files from before this kbuild are too
// recent.
func (s *stability) early(start time.Time) bool {
	return !start.After(s.Begun.Add(2 * cache.FileTick))
}

// tool reports whether the program of a is the one that this kbuild has identified, neither written
// nor moved into place since. Otherwise an upgrade of the toolkit during a build would store
// outputs of the new tools under the keys of the old. Programs that the tool starts in turn are not
// checked.
func (s *stability) tool(a *graph.Action) bool {
	if len(a.Tools) == 0 || len(a.Argv) == 0 || s.IsOutput(a.Argv[0]) {
		return true
	}
	file, err := run.LookPath(a.Argv[0], s.Root, s.Env)
	if err != nil {
		return false
	}
	var link, program unix.Stat_t
	if unix.Lstat(file, &link) != nil || unix.Stat(file, &program) != nil {
		return false
	}
	return !time.Unix(link.Ctim.Unix()).After(s.Begun) &&
		!time.Unix(program.Ctim.Unix()).After(s.Begun)
}

// inputs reports whether the tool and the inputs of a are still those of its key, and were when its
// command started. A file that another action of the graph writes may be recent, so its time does
// not count.
func (s *stability) inputs(a *graph.Action, inputs []cache.FileDigest, start cache.Moment) bool {
	if !s.tool(a) {
		return false
	}
	for _, in := range inputs {
		if s.IsIntermediate(in.Path) {
			if now, err := s.Digest(in.Path); err != nil || now != in.Digest {
				return false
			}
			continue
		}
		since := start
		if s.IsOutput(in.Path) {
			since = cache.Moment{}
		}
		if !s.Files.Unchanged(in.Path, in.Digest, since) {
			return false
		}
	}
	return true
}
