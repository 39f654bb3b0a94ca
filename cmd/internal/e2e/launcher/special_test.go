package launcher_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// Names of files that are no plain files, and variables by which compilers write more files or
// other words, mean what they mean without the launcher.
func TestSpecialFiles(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	p.Run("ln", "-s", "elsewhere", "link.d")
	common := []string{"-c SRC -o -", "-c SRC -o /dev/null", "-MD -c SRC -o /dev/null", "-MD -MF - -c SRC -o out/o.o", "-MMD -MF - -c SRC -o out/o.o",
		"-MD -MF /dev/stdout -c SRC -o out/o.o", "-MD -MF /dev/null -c SRC -o out/o.o", "-MD -MF link.d -c SRC -o out/o.o",
		"-c SRC -o out/o.o @-", "-MD -c SRC -o out/.o"}
	host := append(slices.Clone(common), "-MD -c SRC -o out/name", "-MD -MF out/o.o -c SRC -o out/o.o", "-MD -MF- -c SRC -o out/o.o", "-MD -MF EMPTY -c SRC -o out/o.o", "-MD -c SRC -o -", "-MD -MF /dev/fd/1 -c SRC -o out/o.o",
		"-x c++ -c - -o out/o.o", "-x c++ -c /dev/stdin -o out/o.o", "-MD -dumpdir out/x- -c SRC -o out/o.o", "-c SRC -o SRC", "-MD -MF SRC -c /dev/null -o SRC",
		"-c SRC -o out/o.o -save-stats=obj", "DEPENDENCIES_OUTPUT=out/e -c SRC -o out/o.o", "SUNPRO_DEPENDENCIES=out/e -MD -c SRC -o out/o.o",
		"CC_PRINT_HEADERS=1 -c SRC -o out/o.o", "CC_LOG_DIAGNOSTICS=1 -c SRC -o out/o.o", "GCC_COLORS=warning=31 -fdiagnostics-color=always -Wall -DWARN -c SRC -o out/o.o")
	for _, c := range []struct {
		compiler, source string
		commands         []string
	}{
		{"g++ -Iinc", "h.cpp", host},
		{"clang++-15 -Iinc", "h.cpp", host},
		{"nvcc -arch=sm_80 -Iinc", "k.cu", common},
		{"clang++-15 -Iinc -nogpulib -nogpuinc --offload-arch=gfx906", "d.hip", common},
	} {
		compiler := strings.Fields(c.compiler)
		if _, err := exec.LookPath(compiler[0]); err != nil {
			continue
		}
		source := "own" + c.source
		for _, line := range c.commands {
			var env []string
			argv := slices.Clone(compiler)
			for _, word := range strings.Fields(line) {
				switch word = strings.ReplaceAll(word, "SRC", source); {
				case strings.Contains(strings.SplitN(word, "=", 2)[0], "_") && word[0] != '-' && strings.Contains(word, "="):
					env = append(env, word)
				case word == "EMPTY":
					argv = append(argv, "")
				default:
					argv = append(argv, word)
				}
			}
			q := *p
			q.Env = append(slices.Clone(p.Env), env...)
			text := "__attribute__((global)) void k() {}\n"
			if c.source != "d.hip" {
				text = string(p.Read(c.source))
			}
			p.Write(source, text) // a command may write it
			plain := q.command(argv...)
			for _, when := range []string{"first", "again"} {
				p.Write(source, text)
				mine := q.command(append([]string{"kbuild-cc"}, argv...)...)
				if q.same(plain, mine); t.Failed() {
					t.Fatalf("%q, %q, %s", env, argv, when)
				}
			}
		}
	}
}
