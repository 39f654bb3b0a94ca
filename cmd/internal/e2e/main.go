// Package e2e runs the kbuild of this module on real projects with real compilers, and looks at
// what was made. It is the ground of the tests in the packages below it, a package for what they
// are about, and knows nothing of how kbuild works.
//
// A test has a Project, which is a copy of an example or of an archive in testdata, and asks it to
// Run and to build.
package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// root is the folder of the module, from that of a package of tests.
const root = "../../../.."

var (
	binDir string // where the kbuild under test is
	build  = sync.OnceValue(buildKbuild)
)

// Main is the TestMain of a package of end-to-end tests. after ends what several of them have used.
func Main(m *testing.M, after ...func()) {
	var err error
	if binDir, err = os.MkdirTemp("", "kbuild-e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tooltest.Normalize()
	os.Setenv("XDG_RUNTIME_DIR", binDir) // the machine is shared with no build but those of the tests
	status := m.Run()
	for _, end := range after {
		end()
	}
	os.RemoveAll(binDir)
	os.Exit(status)
}

// buildKbuild builds it as the Makefile does, unless KBUILD_TEST_BIN names a folder with its
// programs: those that make has built, or where tests run without Go.
func buildKbuild() error {
	if dir := os.Getenv("KBUILD_TEST_BIN"); dir != "" {
		for _, name := range []string{"kbuild", "kbuild-cc"} {
			program := filepath.Join(dir, name)
			if _, err := os.Stat(program); err != nil { // noted, as in noteSources
				return err
			}
			if err := os.Symlink(program, filepath.Join(binDir, name)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := noteSources(); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", binDir+"/", "./cmd/kbuild", "./cmd/kbuild-cc", "./cmd/kbuild-remote")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// noteSources looks at the files that kbuild is made of. `go test` gives the result of the last run
// again while all files that the test looked at are as they were, and it does not see what other
// processes read, among them the one that builds kbuild.
func noteSources() error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "examples" || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		_, err = os.Stat(p)
		return err
	})
}
