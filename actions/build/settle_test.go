package build

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// A clock that goes in ticks, and only while somebody waits for it.
type ticking struct {
	at     time.Time
	tick   time.Duration
	waited int
}

func (c *ticking) clock() fileClock {
	return fileClock{
		now:   func() cache.Moment { return cache.Moment{Time: c.at, File: c.at.Truncate(c.tick)} },
		pause: func(d time.Duration) { c.waited++; c.at = c.at.Add(d) },
	}
}

func TestSettle(t *testing.T) {
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
		at := clock.clock().after(noon.Add(c.begun))
		if clock.waited != c.waited {
			t.Errorf("begun %s: waited %d ms, want %d", c.what, clock.waited, c.waited)
		}
		if c.waited < pauses && !at.File.After(noon.Add(c.begun)) {
			t.Errorf("begun %s: the command starts at %v, not after what was there", c.what, at)
		}
	}
}

// A command that reads a file which nobody knew of, and which is as young as the command, runs again when the clock has moved on.
func TestTooYoungToTell(t *testing.T) {
	root := t.TempDir()
	state := filepath.Join(root, ".kbuild")
	for name, text := range map[string]string{"a.c": "", "a.h": "young"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	journal, err := cache.OpenJournal(filepath.Join(state, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	defer run.RemoveTemp(filepath.Join(state, "tmp"), "")
	g := &graph.Graph{}
	a := g.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.c", Inputs: []string{"a.c"}, Outputs: []string{"a.o"}, Depfile: "a.d", Tools: []string{"cc"},
		Argv: []string{"sh", "-c", `cat a.h >"$0"; echo "a.o: a.c a.h" >"$1"; echo >>ran`, "a.o", "a.d"}})
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	late := -time.Hour
	clock := fileClock{
		now:   func() cache.Moment { now := time.Now(); return cache.Moment{Time: now, File: now.Add(late)} },
		pause: func(time.Duration) {},
	}
	r := &Runner{Graph: g, Root: root, State: state, Files: cache.OpenFiles("", root), Listing: cache.NewListing(root), Journal: journal,
		Env: os.Environ(), Begun: time.Now(), clock: clock}
	if _, settled := r.Check(t.Context(), a); settled {
		t.Fatal("it is up to date before it ever ran")
	}
	waits := 0
	r.clock.pause = func(time.Duration) {
		if waits++; waits == pauses+1 { // the wait before the first run was in vain
			late = time.Hour
		}
	}
	res := r.Execute(t.Context(), a)
	ran, _ := os.ReadFile(filepath.Join(root, "ran"))
	if res.Status != sched.Ran || len(res.Output) > 0 || string(ran) != "\n\n" {
		t.Errorf("%v %q %v, ran %d times, want 2", res.Status, res.Output, res.Err, len(ran))
	}
	if journal.Last("a.o") == nil {
		t.Error("what it made is not known")
	}
}

// A file that the assembler takes in is in no dependency file. If it changes while the command runs, nobody knows what of it the command
// has read.
func TestTakenInChanges(t *testing.T) {
	root := t.TempDir()
	state := filepath.Join(root, ".kbuild")
	long := time.Now().Add(-time.Hour)
	for name, text := range map[string]string{"a.c": `asm(".incbin \"data\"");`, "data": "old\n"} {
		file := filepath.Join(root, name)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(file, long, long)
	}
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	journal, err := cache.OpenJournal(filepath.Join(state, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	defer run.RemoveTemp(filepath.Join(state, "tmp"), "")
	g := &graph.Graph{}
	a := g.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.c", Inputs: []string{"a.c"}, Outputs: []string{"a.o"}, Depfile: "a.d", Tools: []string{"cc"},
		Argv: []string{"sh", "-c", `cat data >"$0"; echo "a.o: a.c" >"$1"; [ ! -e edit ] || cp edit data`, "a.o", "a.d"}})
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit  string
		known bool
	}{{"", true}, {"new\n", false}} {
		r := &Runner{Graph: g, Root: root, State: state, Files: cache.OpenFiles("", root), Listing: cache.NewListing(root), Journal: journal,
			Env: os.Environ(), Begun: time.Now()}
		if c.edit != "" {
			if err := os.WriteFile(filepath.Join(root, "edit"), []byte(c.edit), 0o666); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(root, "data"), []byte("other\n"), 0o666)
			time.Sleep(3 * cache.FileTick)
			r.Begun = time.Now()
		}
		if _, settled := r.Check(t.Context(), a); settled {
			t.Fatal("there is nothing to do")
		}
		if res := r.Execute(t.Context(), a); res.Status != sched.Ran {
			t.Fatal(res.Err)
		}
		if known := journal.Last("a.o") != nil; known != c.known {
			t.Errorf("after an edit %q: recorded is %v", c.edit, known)
		}
	}
}

// A header that comes while a command runs, before the one that the command has read, is not taken for one that the command passed over.
func TestHeaderComes(t *testing.T) {
	for _, c := range []struct {
		comes string
		known bool
	}{{"before", true}, {"meanwhile", false}} {
		root := t.TempDir()
		state := filepath.Join(root, ".kbuild")
		for _, dir := range []string{state, filepath.Join(root, "first"), filepath.Join(root, "inc")} {
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"a.c", "inc/a.h", "first/a.h"} {
			if c.comes == "before" || name != "first/a.h" {
				if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(3 * cache.FileTick)
		journal, err := cache.OpenJournal(filepath.Join(state, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		defer journal.Close()
		defer run.RemoveTemp(filepath.Join(state, "tmp"), "")
		g := &graph.Graph{}
		a := g.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.c", Inputs: []string{"a.c"}, Outputs: []string{"a.o"}, Depfile: "a.d", Tools: []string{"cc"},
			SearchDirs: []string{"first", "inc"},
			Argv:       []string{"sh", "-c", `cat inc/a.h >"$0"; echo "a.o: a.c inc/a.h" >"$1"; [ -e first/a.h ] || echo x >first/a.h`, "a.o", "a.d"}})
		if err := g.Seal(); err != nil {
			t.Fatal(err)
		}
		r := &Runner{Graph: g, Root: root, State: state, Files: cache.OpenFiles("", root), Listing: cache.NewListing(root), Journal: journal,
			Env: os.Environ(), Begun: time.Now().Add(-time.Second)}
		if _, settled := r.Check(t.Context(), a); settled {
			t.Fatal("it is up to date before it ever ran")
		}
		if res := r.Execute(t.Context(), a); res.Status != sched.Ran {
			t.Fatal(res.Err)
		}
		if known := journal.Last("a.o") != nil; known != c.known {
			t.Errorf("a header that comes %s: recorded is %v", c.comes, known)
		}
	}
}
