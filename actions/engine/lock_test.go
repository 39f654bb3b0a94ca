package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// While one builds, another is refused where it must not wait; else it is told, waits, and looks at
// what the first has left.
func TestSecondBuild(t *testing.T) {
	p := rebuilt(t)
	p.build()
	p.write("k/a.cpp", "int edited;\n")
	waits, second := make(chan string), make(chan *ui)
	first := p.watch(&ui{begun: func() {
		p.workspace = func(w *Workspace) { w.NoWait = true }
		var busy *run.Busy
		if f := p.build(); !errors.As(f.err, &busy) || f.way != "" || f.plans != 0 {
			t.Errorf("a build that must not wait: %s", f)
		}
		p.workspace = func(*Workspace) {}
		go func() { second <- p.watch(&ui{say: func(text string) { waits <- text }}) }()
		if text := <-waits; !strings.HasPrefix(text, "waiting for another kbuild in this build tree (process ") {
			t.Errorf("the second says %q", text)
		}
	}})
	p.expect("the first", first, "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	f := <-second
	if p.expect("the second", f, "plan:"); len(f.printed) != 1 {
		t.Errorf("it says %q", f.printed)
	}
}

// However a build ends, the next one has the lock.
func TestLockIsGivenBack(t *testing.T) {
	p, trouble := rebuilt(t), errors.New("trouble")
	panics := func() { panic(trouble) }
	tests := []struct {
		name  string
		build func() *ui
	}{
		{"an unknown target", func() *ui { return p.build("none") }},
		{"a cache that is a file", func() *ui {
			p.workspace = func(w *Workspace) { w.CacheDir = p.path("table") }
			return p.build()
		}},
		{"a cache without a size", func() *ui {
			p.workspace = func(w *Workspace) { w.CacheSizeError = trouble }
			return p.build("app")
		}},
		{"a panic as it plans", func() *ui {
			p.workspace = func(w *Workspace) { w.Manifest.Env = func(string) (string, bool) { panic(trouble) } }
			return p.recovered(&ui{}, "app")
		}},
		{"a panic as a plan begins", func() *ui { return p.recovered(&ui{begun: panics}, "app") }},
		{"a panic as a part begins", func() *ui {
			p.write("k/a.cpp", "int edited;\n")
			return p.recovered(&ui{begun: panics})
		}},
		{"a panic as a part runs", func() *ui {
			p.write("k/a.cpp", "int edited_again;\n")
			return p.recovered(&ui{finished: func(string) { panic(trouble) }})
		}},
		{"a manifest with a mistake", func() *ui {
			p.replace("kernels.hcl", "var.def", "var.none")
			defer p.replace("kernels.hcl", "var.none", "var.def")
			return p.build()
		}},
	}
	p.build()
	p.workspace = func(w *Workspace) { w.NoWait = true }
	for _, test := range tests {
		if f := test.build(); f.err == nil {
			t.Errorf("%s: it goes well: %s", test.name, f)
		}
		p.workspace = func(w *Workspace) { w.NoWait = true }
		if f := p.build(); f.err != nil || f.sum.Failed > 0 {
			t.Fatalf("%s: the next build: %s", test.name, f)
		}
	}
}

// recovered builds, and takes a panic for an error.
func (p *project) recovered(f *ui, targets ...string) (same *ui) {
	defer func() {
		same = f
		if r := recover(); r != nil {
			f.err = r.(error)
		}
	}()
	return p.watch(f, targets...)
}
