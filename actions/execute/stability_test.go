package execute

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// ticking is a clock that advances in ticks, and only while a caller waits for it.
type ticking struct {
	at     time.Time
	tick   time.Duration
	waited int
}

func (c *ticking) now() cache.Moment { return cache.Moment{Time: c.at, File: c.at.Truncate(c.tick)} }

func (c *ticking) sleep(d time.Duration) { c.waited++; c.at = c.at.Add(d) }

// lateClock shows files an hour ago until the second wait, and then an hour ahead.
type lateClock struct{ waits int }

func (c *lateClock) now() cache.Moment {
	now := time.Now()
	if c.waits <= pauses { // the wait before the first run was in vain
		return cache.Moment{Time: now, File: now.Add(-time.Hour)}
	}
	return cache.Moment{Time: now, File: now.Add(time.Hour)}
}

func (c *lateClock) sleep(time.Duration) { c.waits++ }

func TestAfter(t *testing.T) {
	const tick = 4 * time.Millisecond
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what   string
		now    time.Duration // after noon
		begun  time.Duration
		waited int // ms
	}{
		{"a second ago", time.Second, 0, 0},
		{"in the tick before this one", tick, tick - 1, 0},
		{"at the start of this tick", 0, 0, 4},
		{"in the middle of this tick", tick / 2, tick / 4, 2},
		{"at the end of this tick", tick - time.Millisecond, tick - time.Millisecond, 1},
		{"before the clock was set back", -time.Hour, 0, pauses},
	} {
		clock := &ticking{at: noon.Add(c.now), tick: tick}
		at := after(clock, noon.Add(c.begun))
		if clock.waited != c.waited {
			t.Errorf("begun %s: waited %d ms, want %d", c.what, clock.waited, c.waited)
		}
		if c.waited < pauses && !at.File.After(noon.Add(c.begun)) {
			t.Errorf("begun %s: the command starts at %v, not after what was there", c.what, at)
		}
	}
}

// lab is a project with one compile, by a shell.
type lab struct {
	t       *testing.T
	root    string
	db      *tree.DB
	graph   *graph.Graph
	compile *graph.Action
}

// newLab returns a lab whose script writes a.o and the dependency file a.d: $0 and $1.
func newLab(t *testing.T, script string, searched ...string) *lab {
	t.Helper()
	l := &lab{t: t, root: t.TempDir(), graph: &graph.Graph{}}
	for _, dir := range append([]string{".kbuild"}, searched...) {
		if err := os.Mkdir(filepath.Join(l.root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if l.db, err = tree.Open(filepath.Join(l.root, ".kbuild/tree.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.db.Close()
		run.RemoveTemp(filepath.Join(l.root, ".kbuild/tmp"), "")
	})
	l.compile = l.graph.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.c", Inputs: []string{"a.c"}, Outputs: []string{"a.o"}, Depfile: "a.d",
		Tools: []string{"cc"}, SearchDirs: searched, Argv: []string{"sh", "-c", script, "a.o", "a.d"}})
	if err := l.graph.Seal(); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.root, name), []byte(text), 0o666); err != nil {
		l.t.Fatal(err)
	}
}

// runner returns the Runner of a kbuild that begins now.
func (l *lab) runner() *Runner {
	return New(Config{Graph: l.graph, Root: l.root, State: filepath.Join(l.root, ".kbuild"), Files: cache.NewFiles(l.root, nil),
		Listing: cache.NewListing(l.root), Records: l.db, Env: os.Environ(), Begun: time.Now()})
}

// lateRunner returns the Runner of a kbuild that began long after all files were written: it runs
// nothing twice.
func (l *lab) lateRunner() *Runner {
	after(kernelClock{}, time.Now().Add(cache.FileTick))
	r := l.runner()
	r.Begun = r.Begun.Add(-time.Minute)
	return r
}

// build checks and runs the compile, and reports whether it was recorded.
func (l *lab) build(r *Runner) (res sched.Result, recorded bool) {
	l.t.Helper()
	if _, settled := r.Check(l.t.Context(), l.compile); settled {
		l.t.Fatal("there is nothing to do")
	}
	if res = r.Execute(l.t.Context(), l.compile, nil); res.Status != sched.Ran {
		l.t.Fatal(res.Err)
	}
	return res, l.db.Last("a.o") != nil
}

// Outputs of a tool that was replaced after kbuild identified it do not belong to their key.
func TestToolReplaced(t *testing.T) {
	for replace, want := range map[string]bool{"": true, "cp cc next; mv next cc": false, "ln -sf other link.new; mv link.new link": false, "touch -d yesterday other": false} {
		l := newLab(t, "")
		l.write("a.c", "")
		l.write("other", "#!/bin/sh\n: >\"$1\"; echo \"a.o: a.c\" >\"$2\"\n"+replace+"\n")
		l.compile.Argv = []string{"./cc", "a.o", "a.d"}
		for _, err := range []error{os.Chmod(filepath.Join(l.root, "other"), 0o777), os.Link(filepath.Join(l.root, "other"), filepath.Join(l.root, "cc"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(replace, "link") {
			l.compile.Argv[0] = "./link"
			if err := os.Symlink("cc", filepath.Join(l.root, "link")); err != nil {
				t.Fatal(err)
			}
		}
		after(kernelClock{}, time.Now().Add(cache.FileTick))
		if _, recorded := l.build(l.runner()); recorded != want {
			t.Errorf("%q while it runs: recorded %v", replace, recorded)
		}
	}
}

// A command runs again, once the clock has advanced, if it read an unknown file that is as recent
// as the command.
func TestTooRecent(t *testing.T) {
	l := newLab(t, `cat a.h >"$0"; echo "a.o: a.c a.h" >"$1"; echo >>ran`)
	l.write("a.c", "")
	l.write("a.h", "young")
	r := l.runner()
	r.stability.clock = &lateClock{}
	res, recorded := l.build(r)
	if ran, _ := os.ReadFile(filepath.Join(l.root, "ran")); len(res.Output) > 0 || string(ran) != "\n\n" || !recorded {
		t.Errorf("%q, ran %d times, want 2; recorded is %v", res.Output, len(ran), recorded)
	}
}

// A file that the assembler includes is in no dependency file. If it changes while the command
// runs, kbuild cannot know which content the command read.
func TestTakenInChanges(t *testing.T) {
	l := newLab(t, `cat data >"$0"; echo "a.o: a.c" >"$1"; [ ! -e edit ] || cp edit data`)
	l.compile.Argv = append(l.compile.Argv, "-x", "assembler")
	l.write("a.c", ".incbin \"data\"\n")
	l.write("data", "old\n")
	if _, recorded := l.build(l.lateRunner()); !recorded {
		t.Error("nothing changed, and it is not recorded")
	}
	l.write("edit", "new\n")
	l.write("data", "other\n")
	if _, recorded := l.build(l.lateRunner()); recorded {
		t.Error("data changed under the command, and it is recorded")
	}
}

// A compile runs each time if the assembler includes a file that the text of cudafe++ names.
func TestTakenInByHostCode(t *testing.T) {
	l := newLab(t, `cat in/data >"$0"; echo "a.o: a.cudafe1.cpp" >"$1"`)
	l.graph = &graph.Graph{}
	l.graph.Add(&graph.Action{Kind: graph.Cudafe, Name: "a.cu", Outputs: []string{"a.cudafe1.cpp"}})
	a := &graph.Action{Kind: graph.HostPart, Name: "a.cu", Inputs: []string{"a.cudafe1.cpp"}, Outputs: []string{"a.o"}, Depfile: "a.d", Tools: []string{"cc"},
		Argv: append(slices.Clone(l.compile.Argv), "-Iin"), Work: graph.Work{Pass: &graph.CompilerPass{Staged: []graph.StagedFile{{Name: "a.cudafe1.cpp", From: "a.cudafe1.cpp"}}}}}
	l.compile = l.graph.Add(a)
	if err := l.graph.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(l.root, "in"), 0o777); err != nil {
		t.Fatal(err)
	}
	l.write("a.cudafe1.cpp", `asm(".incbin \"data\"");`)
	l.write("in/data", "old\n")
	made := cache.Record{Outputs: []cache.Output{{Path: "a.cudafe1.cpp", Digest: l.digest("a.cudafe1.cpp")}}}
	if err := l.db.Append(&made); err != nil {
		t.Fatal(err)
	}
	if _, recorded := l.build(l.lateRunner()); !recorded {
		t.Error("nothing changed, and it is not recorded")
	}
	if rec := l.db.LastRun("a.o"); discover.RunsEachTime(rec) == "" {
		t.Errorf("it need not run again: %v", rec.Discovered)
	}
}

func (l *lab) digest(name string) cache.Digest {
	l.t.Helper()
	d, err := cache.DigestFile(filepath.Join(l.root, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// A header that appears while a command runs, before the one that the command read, is not recorded
// as one that the command passed over.
func TestHeaderComes(t *testing.T) {
	for comes, want := range map[string]bool{"before": true, "meanwhile": false} {
		l := newLab(t, `cat inc/a.h >"$0"; echo "a.o: a.c inc/a.h" >"$1"; [ -e first/a.h ] || echo x >first/a.h`, "first", "inc")
		l.write("a.c", "")
		l.write("inc/a.h", "")
		if comes == "before" {
			l.write("first/a.h", "")
		}
		if _, recorded := l.build(l.lateRunner()); recorded != want {
			t.Errorf("a header that comes %s: recorded is %v", comes, recorded)
		}
	}
}
