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

// deviceCompile is a compile by clang's driver that is keyed by its text, and a runner that the driver answers with steps.
func deviceCompile(t *testing.T, text, steps string) (*parcel, *graph.Action, scratch, error) {
	t.Helper()
	l := newLab(t, "")
	c := l.lateRunner().Config
	l.write("a b.hip", "the source\n")
	l.write("x.canon.ii", text)
	l.write("lib.bc", "bitcode")
	c.Elsewhere = &unsteady{}
	dir := scratch{dir: filepath.Join(l.root, ".kbuild/tmp/x"), rel: ".kbuild/tmp/x"}
	if err := os.MkdirAll(dir.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	a := &graph.Action{Kind: graph.DeviceCode, Argv: []string{"cat", "-c", "-o", "build/x.bc", "a b.hip"}, Inputs: []string{"x.canon.ii"}, Outputs: []string{"build/x.bc"},
		Work: graph.Work{Step: &graph.Step{UnkeyedPaths: []string{"a b.hip"}, KeyedByText: []string{"x.ii"}}}}
	carrier := New(c).carrier
	carrier.ask = func(context.Context, *graph.Action, []string, bool) (string, bool) { return steps, true }
	carrier.bring = func(context.Context, string) error { return nil }
	carrier.digest = func(file string) (cache.Digest, error) { return cache.DigestFile(filepath.Join(l.root, file)) }
	p, err := carrier.pack(t.Context(), a, a.Argv, dir)
	return p, a, dir, err
}

// front is a step of clang's front end as the driver shows it, with more arguments.
func front(more ...string) string {
	words := []string{"/bin/cat", "-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-isystem", "/usr/include", "-D", "X=/a", "-DY", "-include", "wrapper.h", "-resource-dir", "/r",
		"-dumpdir", "build/x-", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3"}
	words = append(append(words, more...), "-o", "build/x.bc", "-x", "hip", "a b.hip")
	return ` "` + strings.Join(words, `" "`) + "\"\n"
}

// A device compile reads the text under the name of the source, and nothing that the text was made of.
func TestPackText(t *testing.T) {
	p, _, dir, err := deviceCompile(t, "int a;\n", front())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3",
		"-o", ".kbuild/tmp/x/x.bc", "-x", "hip-cpp-output", "a b.hip"}
	if got := p.cmd.Argv[5:]; !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	for _, in := range p.cmd.Inputs {
		if in.Path == "a b.hip" && filepath.Base(in.File) != "x.canon.ii" {
			t.Errorf("the source is %s", in.File)
		}
	}
	if !travelled(p.cmd, "a b.hip") || !travelled(p.cmd, "lib.bc") || !p.silent || p.then != nil || p.moves[dir.file("away0")] != dir.output(0, "x.bc") {
		t.Errorf("%+v", p)
	}
}

// What clang links by itself is linked here, from what comes back, to a file that the race with this machine does not touch.
func TestPackTextLinked(t *testing.T) {
	p, _, dir, err := deviceCompile(t, "int a;\n", strings.ReplaceAll(front(), "build/x.bc", "/tmp/x-1.o")+` "/ld" "-o" "build/x.bc" "/tmp/x-1.o"`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	p.carrier.here = func(_ context.Context, _ *graph.Action, argv []string, _ scratch) (run.Result, error) {
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
		{"lines", "int a = __builtin_LINE();\n", front(), "asks for its own lines"},
		{"lambdas", "auto a = __PRETTY_FUNCTION__;\n", front(), "asks for its own lines"},
		{"no answer", "int a;\n", "clang version 99\n", "shows no steps"},
		{"another driver", "int a;\n", ` "/bin/cat" "-o" "x"` + "\n", "nobody knows what cat does"},
		{"three steps", "int a;\n", front() + ` "/ld" "a"` + "\n" + ` "/bundle" "a"` + "\n", "nobody knows what cat does"},
		{"another link", "int a;\n", front() + ` "/ld" "-o" "build/y" "/other"` + "\n", "does not name"},
		{"another language", "int a;\n", strings.Replace(front(), `"hip"`, `"ir"`, 1), "nobody knows what clang compiles"},
		{"a plugin", "int a;\n", front("-load", "p.so"), "-load names"},
		{"a file of the project", "int a;\n", front("-fprofile-use-path=lib.bc"), "-fprofile-use-path=lib.bc names"},
		{"a file", "int a;\n", front("-fsanitize-ignorelist=/etc/list"), "/etc/list names"},
		{"modules", "int a;\n", front("-fmodules"), "-fmodules names"},
		{"a precompiled header", "int a;\n", front("-include-pch", "/a.pch"), "nobody knows what"},
	} {
		if _, _, _, err := deviceCompile(t, tt.text, tt.steps); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A compile whose outputs record lines, or of a source outside of the project, stays here.
func TestTextThere(t *testing.T) {
	_, a, _, err := deviceCompile(t, "int a;\n", front())
	if err != nil || textThere(a) != "x.canon.ii" || !travels(a) {
		t.Fatalf("%q, %v", textThere(a), err)
	}
	raw, outside := *a, *a
	raw.Inputs = []string{"x.ii"}
	step := *a.Work.Step
	step.UnkeyedPaths = []string{"../a b.hip"}
	outside.Work.Step = &step
	for _, a := range []*graph.Action{&raw, &outside} {
		if travels(a) {
			t.Errorf("%v travels", a.Step())
		}
	}
}
