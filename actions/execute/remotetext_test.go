package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// deviceCompile is a compile by clang's driver that another machine makes of a text, and a runner
// that the driver answers with steps.
func deviceCompile(t *testing.T, text, steps string) (*remoteRequest, *graph.Action, scratch, error) {
	t.Helper()
	l := newLab(t, "")
	c := l.lateRunner().Config
	l.write("a b.hip", "the source\n")
	l.write("lib.bc", "bitcode")
	c.Elsewhere = &unsteady{}
	dir := scratch{dir: filepath.Join(l.root, ".kbuild/tmp/x"), rel: ".kbuild/tmp/x"}
	if err := os.MkdirAll(dir.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	a := &graph.Action{Kind: graph.DeviceCode, Argv: []string{"cat", "-c", "-o", "build/x.bc", "a b.hip"}, Inputs: []string{"a b.hip", "lib.bc"},
		Outputs: []string{"build/x.bc"}, Depfile: "build/x.bc.d", Intermediate: true,
		Work: graph.Work{Step: &graph.Step{TextArgv: []string{"clang", "-frewrite-includes", "-MF", "build/x.bc.d", "-o", "build/x.bc", "a b.hip"}}}}
	remoteTransport := New(c).remoteTransport
	remoteTransport.ask = func(context.Context, *graph.Action, []string, bool) (string, bool) { return steps, true }
	remoteTransport.here = func(_ context.Context, _ *graph.Action, argv []string, in scratch) (res run.Result, err error) {
		if want := []string{"clang", "-frewrite-includes", "-MF", in.rel + "/kbuild.d", "-o", in.rel + "/x.bc", "a b.hip"}; !slices.Equal(argv, want) {
			t.Errorf("the text is written by %q, want %q", argv, want)
		}
		if strings.HasPrefix(text, "#warning") {
			res.Output = []byte("a b.hip:1:2: warning: seen\n")
		}
		return res, os.WriteFile(filepath.Join(l.root, in.rel, "x.bc"), []byte(text), 0o666)
	}
	remoteTransport.digest = func(file string) (cache.Digest, error) { return cache.DigestFile(filepath.Join(l.root, file)) }
	p, err := remoteTransport.pack(t.Context(), a, a.Argv, dir)
	return p, a, dir, err
}

// frontEnd is a step of clang's front end as the driver shows it, with more arguments.
func frontEnd(more ...string) string {
	words := []string{"/bin/cat", "-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-isystem", "/usr/include", "-D", "X=/a", "-DY", "-include", "wrapper.h", "-resource-dir", "/r",
		"-dumpdir", "build/x-", "-dependency-file", "build/x.d", "-MT", "text", "-sys-header-deps", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3"}
	words = append(append(words, more...), "-o", "build/x.bc", "-x", "hip", "a b.hip")
	return ` "` + strings.Join(words, `" "`) + "\"\n"
}

// A device compile reads the text under the name of the source, and nothing that the text was made
// of.
func TestPackText(t *testing.T) {
	p, _, dir, err := deviceCompile(t, "int a;\n", frontEnd())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-D", "X=/a", "-DY", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3",
		"-o", ".kbuild/tmp/x/x.bc", "-x", "hip", "a b.hip"}
	if got := p.cmd.Argv[5:]; !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	for _, in := range p.cmd.Inputs {
		if in.Path == "a b.hip" && !strings.HasSuffix(in.File, "/again/x.bc") {
			t.Errorf("the source is %s", in.File)
		}
	}
	if !travelled(p.cmd, "a b.hip") || !travelled(p.cmd, "lib.bc") || !p.silent || p.then != nil || p.moves[dir.file("away0")] != dir.output(0, "x.bc") ||
		p.moves[dir.again().depfile()] != dir.depfile() {
		t.Errorf("%+v", p)
	}
}

// What clang links by itself is linked here, from what comes back, to a file that the race with
// this machine does not touch.
func TestPackTextLinked(t *testing.T) {
	p, _, dir, err := deviceCompile(t, "int a;\n", strings.ReplaceAll(frontEnd(), "build/x.bc", "/tmp/x-1.o")+` "/ld" "-o" "build/x.bc" "/tmp/x-1.o"`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	p.remoteTransport.here = func(_ context.Context, _ *graph.Action, argv []string, _ scratch) (run.Result, error) {
		linked = argv
		return run.Result{}, errors.New("seen")
	}
	p.then(t.Context())
	if want := []string{"/ld", "-o", dir.file("away0"), dir.file("away.o")}; !slices.Equal(linked, want) || p.cmd.Outputs[0].File != dir.file("away.o") {
		t.Errorf("links %q, want %q; %v comes back", linked, want, p.cmd.Outputs)
	}
}

// What nobody knows, or what is not the same from a text, is compiled here.
func TestPackTextRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, steps, want string }{
		{"the time", "const char *t = __TIME__;\n", frontEnd(), "may tell the time"},
		{"a warning", "#warning seen\n", frontEnd(), "clang prints"},
		{"no answer", "int a;\n", "clang version 99\n", "shows no steps"},
		{"another driver", "int a;\n", ` "/bin/cat" "-o" "x"` + "\n", "nobody knows what cat does"},
		{"three steps", "int a;\n", frontEnd() + ` "/ld" "a"` + "\n" + ` "/bundle" "a"` + "\n", "nobody knows what cat does"},
		{"another link", "int a;\n", frontEnd() + ` "/ld" "-o" "build/y" "/other"` + "\n", "does not name"},
		{"another language", "int a;\n", strings.Replace(frontEnd(), `"hip"`, `"ir"`, 1), "nobody knows what clang compiles"},
		{"a plugin", "int a;\n", frontEnd("-load", "p.so"), "-load names"},
		{"a file of the project", "int a;\n", frontEnd("-fprofile-use-path=lib.bc"), "-fprofile-use-path=lib.bc names"},
		{"a file", "int a;\n", frontEnd("-fsanitize-ignorelist=/etc/list"), "/etc/list names"},
		{"modules", "int a;\n", frontEnd("-fmodules"), "-fmodules names"},
		{"macros of a file", "int a;\n", frontEnd("-imacros", "lib.bc"), "lib.bc names"},
		{"a precompiled header", "int a;\n", frontEnd("-include-pch", "/a.pch"), "nobody knows what"},
	} {
		if _, _, _, err := deviceCompile(t, tt.text, tt.steps); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A compile whose outputs record lines, or of a source outside of the project, stays here.
func TestHasText(t *testing.T) {
	_, a, _, err := deviceCompile(t, "int a;\n", frontEnd())
	if err != nil || !hasText(a) || !travels(a) {
		t.Fatalf("%v, %v", hasText(a), err)
	}
	lines, outside := *a, *a
	lines.Work.Step = &graph.Step{}
	outside.Inputs = []string{"../a b.hip"}
	for _, a := range []*graph.Action{&lines, &outside} {
		if travels(a) {
			t.Errorf("%v travels", a.Inputs)
		}
	}
}
