package engine

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/tree"
)

// A failure is told, whatever does not need it is built, and the next build looks at what is not up
// to date alone.
func TestFailure(t *testing.T) {
	p := rebuilt(t)
	p.write("k/a.cpp", "#include \"missing.h\"\n")
	failed := "failed obj/library.k/k/a.cpp.o; "
	first := p.build()
	p.expect("the first build", first, "plan: "+failed+"ran bin/solo gen/g/g.h obj/executable.app/app.cpp.o obj/executable.solo/solo.cpp.o"+
		" obj/library.k/k/b.cpp.o obj/library.k/k/c.cpp.o; skipped bin/app lib/libk.a")
	p.told(first, "missing.h: No such file")
	again := p.build()
	p.expect("again", again, "part: "+failed+"skipped bin/app lib/libk.a")
	p.told(again, "missing.h: No such file")
	p.write("k/a.cpp", "int mended;\n")
	p.expect("mended", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	p.expect("in the end", p.build(), "view:")
}

// told wants one action that failed, with the compiler's words.
func (p *project) told(f *ui, words string) {
	p.t.Helper()
	if f.sum.Failed != 1 || f.finishes != 1 {
		p.t.Errorf("%d actions failed, and the end was told %d times", f.sum.Failed, f.finishes)
	}
	for out, r := range f.looked {
		if r.Status == sched.Failed && (r.Err == nil || !strings.Contains(string(r.Output), words)) {
			p.t.Errorf("%s fails with %v and says %q, want %q", out, r.Err, r.Output, words)
		}
	}
}

// A build that was interrupted between two actions keeps what it ran and read, and the next one
// does the rest.
func TestInterrupted(t *testing.T) {
	p := rebuilt(t)
	f := &ui{}
	f.finished = func(string) {
		if len(f.looked) == 4 {
			f.stop()
		}
	}
	p.watch(f)
	if !f.sum.Interrupted || f.sum.Ran != 4 || f.err != nil {
		t.Fatalf("%s: %+v", f, f.sum)
	}
	db, err := tree.Open(database(p.path("build/.kbuild")))
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, name := range []string{"app.cpp", "solo.cpp", "table", "k/a.cpp", "k/b.cpp", "k/c.cpp"} {
		if _, ok := db.Known(name); ok {
			known++
		}
	}
	db.Close()
	if known == 0 {
		t.Error("it is not known what was read")
	}
	next := p.build()
	if next.way != "plan" || next.sum.UpToDate != 4 || next.sum.Ran != next.sum.Actions-4 {
		t.Errorf("the next build: %s: %+v", next, next.sum)
	}
	p.expect("in the end", p.build(), "view:")
}

// A command that was interrupted leaves nothing of its output.
func TestInterruptedCommand(t *testing.T) {
	p := newProject(t, map[string]string{
		"kernels.hcl": "generate \"g\" {\n  command = [\"sh\", \"slow.sh\", self.outputs[0]]\n  outputs = [\"g.txt\"]\n}\n",
		"slow.sh":     "echo half >\"$1\"\n[ -e fast ] || { echo >started; read x <never; }\necho whole >\"$1\"\n",
	})
	for _, fifo := range []string{"started", "never"} {
		if err := syscall.Mkfifo(p.path(fifo), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f := &ui{}
	f.begun = func() {
		go func() {
			os.ReadFile(p.path("started"))
			f.stop()
		}()
	}
	if p.watch(f); !f.sum.Interrupted || f.sum.Ran != 0 {
		t.Errorf("%s: %+v", f, f.sum)
	}
	if files := p.files(); len(files) > 0 {
		t.Errorf("it has left %q", files)
	}
	p.write("fast", "")
	if f := p.build(); f.sum.Ran != 1 || f.err != nil {
		t.Errorf("the next build: %s: %+v", f, f.sum)
	}
	if text, err := os.ReadFile(p.path("build/gen/g/g.txt")); string(text) != "whole\n" {
		t.Errorf("it has made %q, %v", text, err)
	}
}
