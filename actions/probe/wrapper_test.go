package probe

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A compiler that is called by a script, which is called by a script, is what all of them are. Only
// gcc at the end says what it would run.
func TestWrappedCompiler(t *testing.T) {
	for name, inner := range map[string]string{
		"by name":      "exec middle -O2 \"$@\"\n",
		"beside it":    "exec \"$(dirname \"$0\")/middle\" -O2 \"$@\"\n",
		"by its place": "exec BIN/middle -O2 \"$@\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			bin := compilers(t)
			gcc := "case \"$*\" in\n*-###*) echo COLLECT_GCC=real-gcc; echo cc1plus \"$@\";;\n*-dump*) echo 12.2.0;;\n*-print*) echo " + bin + "/cc1plus;;\nesac\n"
			script := func(name, text string) { write(t, filepath.Join(bin, name), "#!/bin/sh\n"+text, 0o755) }
			script("real-gcc", gcc)
			script("middle", "exec real-gcc \"$@\"\n")
			script("outer", strings.ReplaceAll(inner, "BIN", bin))
			t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			r := Request{Needs: vendors.Needs{HostCompiler: filepath.Join(bin, "outer")}, Env: env(map[string]string{"PATH": bin}), MemoPath: t.TempDir()}
			last := collect(t, r).CXX
			if again := collect(t, r).CXX; last.Error != "" || again.ID != last.ID {
				t.Fatalf("two probings differ: %+v, %+v", last, again)
			}
			for _, file := range []string{"outer", "middle", "real-gcc"} {
				text, _ := os.ReadFile(filepath.Join(bin, file))
				write(t, filepath.Join(bin, file), string(text)+"# edited\n", 0o755)
				if now := collect(t, r).CXX; now.ID == last.ID {
					t.Errorf("%s changed and is not in the identity", file)
				} else {
					last = now
				}
			}
		})
	}
}

// What a script adds to a command is in the identity, also where it cannot be seen whom it calls;
// then nothing is remembered.
func TestHiddenCompiler(t *testing.T) {
	bin := compilers(t)
	gcc := "case \"$*\" in\n*-###*) echo COLLECT_GCC=real-gcc; echo cc1plus \"$@\";;\n*-dump*) echo 12.2.0;;\n*-print*) echo " + bin + "/cc1plus;;\nesac\n"
	write(t, filepath.Join(bin, "real-gcc"), "#!/bin/sh\n"+gcc, 0o755)
	write(t, filepath.Join(bin, "hidden"), "#!/bin/sh\nexec real-gcc -O1 \"$@\"\n", 0o755)
	write(t, filepath.Join(bin, "outer"), "#!/bin/sh\nexec \"$("+"echo hid)den\" \"$@\"\n", 0o755)
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r := Request{Needs: vendors.Needs{HostCompiler: filepath.Join(bin, "outer")}, Env: env(map[string]string{"PATH": bin}), MemoPath: t.TempDir()}
	first := collect(t, r).CXX
	write(t, filepath.Join(bin, "hidden"), "#!/bin/sh\nexec real-gcc -O3 \"$@\"\n", 0o755)
	if now := collect(t, r).CXX; now.ID == first.ID || now.Error != "" {
		t.Errorf("another option is not in the identity: %+v", now)
	}
}
