package remote

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// deviceCompile packs a compile by a driver of clang, which a script replaces: it prints steps, and
// writes text if it is called to write a text.
func deviceCompile(t *testing.T, text, steps string, look func(l *lab, p *request)) (*lab, *request, error) {
	t.Helper()
	l := newLab(t, &graph.Action{Kind: graph.DeviceCode, Argv: []string{"./clang", "-c", "-o", "build/x.bc", "a b.hip"}, Inputs: []string{"a b.hip", "lib.bc"},
		Outputs: []string{"build/x.bc"}, Depfile: "build/x.bc.d", Intermediate: true,
		Work: graph.Work{Pass: &graph.CompilerPass{TextArgv: []string{"./clang", "-frewrite-includes", "-MF", "build/x.bc.d", "-o", "build/x.bc", "a b.hip"}}}}, &unsteady{})
	l.write("a b.hip", "the source\n")
	l.write("lib.bc", "bitcode")
	l.write("steps", steps)
	l.write("text", text)
	l.write("ld", "#!/bin/sh\nfor a; do echo \"$a\"; done >linked\n")
	l.write("clang", `#!/bin/sh
case $1 in
-###) cat steps >&2 ;;
-frewrite-includes)
	[ "$2 ${3##*/} $4 ${5##*/} $6" = "-MF kbuild.d -o x.bc a b.hip" ] || echo "called with $*"
	if grep '^#warning' text; then :; fi
	cat text >"$5" ;;
esac
`)
	p, err := l.pack(func(p *request) {
		if look != nil {
			look(l, p)
		}
	})
	return l, p, err
}

// frontEnd is a step of clang's front end as the driver shows it, with more arguments.
func frontEnd(more ...string) string {
	words := []string{"/bin/cat", "-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-isystem", "/usr/include", "-D", "X=/a", "-DY", "-include", "wrapper.h", "-resource-dir", "/r",
		"-dumpdir", "build/x-", "-dependency-file", "build/x.d", "-MT", "text", "-sys-header-deps", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3"}
	words = append(append(words, more...), "-o", "build/x.bc", "-x", "hip", "a b.hip")
	return ` "` + strings.Join(words, `" "`) + "\"\n"
}

// A device compile reads the text under the name of the source, and none of its headers.
func TestPackText(t *testing.T) {
	_, p, err := deviceCompile(t, "int a;\n", frontEnd(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-cc1", "-emit-llvm-bc", "-main-file-name", "a b.hip", "-D", "X=/a", "-DY", "-mlink-builtin-bitcode", "lib.bc", "-fdebug-compilation-dir=/proc/self/cwd", "-O3",
		"-o", p.name(p.Output(0)), "-x", "hip", "a b.hip"}
	if got := p.cmd.Argv[5:]; !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	for _, in := range p.cmd.Inputs {
		if in.Path == "a b.hip" && !strings.HasSuffix(in.File, "/again/x.bc") {
			t.Errorf("the source is %s", in.File)
		}
	}
	if !travelled(p.cmd, "a b.hip") || !travelled(p.cmd, "lib.bc") || !p.silent || p.then != nil || p.moves[p.File("away0")] != p.Output(0) ||
		p.moves[filepath.Join(p.Folder(), "again/kbuild.d")] != p.Depfile() {
		t.Errorf("%+v", p)
	}
}

// A link that clang adds runs locally, from the returned object, to a file that a local run of the
// command does not write.
func TestPackTextLinked(t *testing.T) {
	steps := strings.ReplaceAll(frontEnd(), "build/x.bc", "/tmp/x-1.o") + ` "./ld" "-o" "build/x.bc" "/tmp/x-1.o"` + "\n"
	_, _, err := deviceCompile(t, "int a;\n", steps, func(l *lab, p *request) {
		if _, err := p.then.Run(t.Context()); err != nil {
			t.Error(err)
		}
		linked, _ := os.ReadFile(filepath.Join(l.root, "linked"))
		want := "-o\n" + p.File("away0") + "\n" + p.File("away.o") + "\n"
		if string(linked) != want || p.cmd.Outputs[0].File != p.File("away.o") {
			t.Errorf("links %q, want %q; %v comes back", linked, want, p.cmd.Outputs)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A compile that kbuild does not understand, or that a text would change, runs locally.
func TestPackTextRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, steps, want string }{
		{"the time", "const char *t = __TIME__;\n", frontEnd(), "may tell the time"},
		{"a warning", "#warning seen\n", frontEnd(), "clang prints"},
		{"no answer", "int a;\n", "clang version 99\n", "shows no steps"},
		{"another driver", "int a;\n", ` "/bin/cat" "-o" "x"` + "\n", "does not know the steps"},
		{"three steps", "int a;\n", frontEnd() + ` "/ld" "a"` + "\n" + ` "/bundle" "a"` + "\n", "does not know the steps"},
		{"another link", "int a;\n", frontEnd() + ` "/ld" "-o" "build/y" "/other"` + "\n", "does not name"},
		{"another language", "int a;\n", strings.Replace(frontEnd(), `"hip"`, `"ir"`, 1), "does not know what clang compiles"},
		{"a plugin", "int a;\n", frontEnd("-load", "p.so"), "-load: kbuild does not know"},
		{"a file of the project", "int a;\n", frontEnd("-fprofile-use-path=lib.bc"), "-fprofile-use-path=lib.bc: kbuild does not know"},
		{"a file", "int a;\n", frontEnd("-fsanitize-ignorelist=/etc/list"), "/etc/list: kbuild does not know"},
		{"modules", "int a;\n", frontEnd("-fmodules"), "-fmodules: kbuild does not know"},
		{"macros of a file", "int a;\n", frontEnd("-imacros", "lib.bc"), "lib.bc: kbuild does not know"},
		{"a precompiled header", "int a;\n", frontEnd("-include-pch", "/a.pch"), "does not know"},
	} {
		if _, _, err := deviceCompile(t, tt.text, tt.steps, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A compile whose outputs record lines runs locally, as does one of a source outside of the
// project.
func TestHasText(t *testing.T) {
	l, _, err := deviceCompile(t, "int a;\n", frontEnd(), nil)
	a := l.action
	if err != nil || !hasText(a) || !canRunRemotely(a) {
		t.Fatalf("%v, %v", hasText(a), err)
	}
	lines, outside := *a, *a
	lines.Work.Pass = &graph.CompilerPass{}
	outside.Inputs = []string{"../a b.hip"}
	for _, a := range []*graph.Action{&lines, &outside} {
		if canRunRemotely(a) {
			t.Errorf("%v travels", a.Inputs)
		}
	}
}
