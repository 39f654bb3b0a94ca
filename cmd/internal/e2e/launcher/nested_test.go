package launcher_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// nextInPath is a program that stands before compilers as ccache does: it runs the next one of its
// name in PATH that is no link to itself. Two that start each other are ended after ten.
const nextInPath = `#!/bin/sh
COUNT=${COUNT:-/dev/null}
echo x >>"$COUNT"
[ "$(wc -l <"$COUNT")" -lt 10 ] || { echo "it does not end" >&2; exit 3; }
IFS=:
for dir in $PATH; do
	file=$dir/${0##*/}
	[ -x "$file" ] && [ "$(realpath "$file")" != "$(realpath "$0")" ] && exec "$file" "$@"
done
exit 4
`

// Launchers that have links in PATH under the names of compilers do not start each other again and
// again, in whatever order they stand there.
func TestNested(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	for _, program := range []string{"ccache", "other"} {
		p := newProject(t, tooltest.Toolkit{})
		wrapper := filepath.Join(p.Dir, program)
		if program == "real ccache" {
			real, err := exec.LookPath("ccache")
			if err != nil {
				continue
			}
			wrapper = real
		} else if err := os.WriteFile(wrapper, []byte(nextInPath), 0o777); err != nil {
			t.Fatal(err)
		}
		p.Run("kbuild", "cc", "--links", "links")
		p.Run("kbuild", "cc", "--links", "mixed") // a folder that stays in PATH
		p.Write("mixed/other", "")
		for _, name := range []string{"gcc", "g++"} {
			if err := os.MkdirAll(filepath.Join(p.Dir, "masq"), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(wrapper, filepath.Join(p.Dir, "masq", name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, order := range []string{"links:masq", "masq:links", "mixed:masq", "masq:mixed", "masq:links:mixed"} {
			path := p.Path
			for _, dir := range strings.Split(order, ":") {
				path = strings.Replace(path, p.Path, filepath.Join(p.Dir, dir)+":"+p.Path, 1)
			}
			q := *p
			count := filepath.Join(p.Dir, "count")
			q.Env = append(p.Env[:len(p.Env):len(p.Env)], "PATH="+path, "COUNT="+count,
				"CCACHE_DIR="+filepath.Join(p.Dir, "ccache-dir"))
			for _, command := range [][]string{
				{"g++", "-c", "-Iinc", "h.cpp", "-o", "out/h.o"},
				{"nvcc", "-arch=sm_80", "-Iinc", "-c", "k.cu", "-o", "out/k.o"},
				{"kbuild", "cc", "--", "g++", "-E", "-Iinc", "h.cpp"},
			} {
				if command[0] == "nvcc" && order != "links:masq" && order != "masq:links" {
					continue // it calls gcc
				}
				os.Remove(count)
				made := q.command(append([]string{"timeout", "300"}, command...)...)
				if made.status != 0 || len(made.files) == 0 && made.stdout == "" {
					t.Errorf("%s, %s: %q ends with %d and says %q", program, order, command, made.status, made.stderr)
				}
			}
		}
	}
}

// What a program before the compiler does depends on more than kbuild sees.
func TestWrapperIsLeft(t *testing.T) {
	t.Parallel()
	list := tooltest.Toolkits(t)
	p := newProject(t, list[len(list)-1])
	p.Write("ccache", nextInPath)
	for _, command := range []string{"mkdir bin", "chmod +x ccache", "ln -s ../ccache bin/g++", "ln -s ../ccache bin/gcc"} {
		p.Run("sh", "-c", command)
	}
	p.Env = append(p.Env, "PATH="+filepath.Join(p.Dir, "bin")+":"+p.Path, "COUNT="+filepath.Join(p.Dir, "count"))
	commands := [][]string{
		{"g++", "-c", "-Iinc", "h.cpp", "-o", "out/h.o"},
		{"nvcc", "-ccbin", "bin/g++", "-arch=sm_80", "-Iinc", "-c", "k.cu", "-o", "out/k.o"},
	}
	if len(list) > 1 { // Debian's nvcc has a gcc of its own
		commands = append(commands, []string{"nvcc", "-arch=sm_80", "-Iinc", "-c", "k.cu", "-o", "out/k.o"})
	}
	for _, argv := range commands {
		os.Remove(filepath.Join(p.Dir, "count"))
		p.command(append([]string{"kbuild-cc"}, argv...)...)
		if e := p.last(); e.Result != "left" || !strings.Contains(e.Why, "ccache") {
			t.Errorf("%q: %+v", argv, e)
		}
	}
}
