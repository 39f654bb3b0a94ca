// Package e2e runs this module's kbuild on real projects with real compilers, and inspects the
// outputs. The test packages below it, one per topic, are built on it. It does not know how kbuild
// works.
//
// A test creates a Project, which is a copy of an example or of an archive in testdata. It then
// runs commands and builds in it.
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

// root is the root of the module, relative to a test package.
const root = "../../../.."

var (
	binDir string // the folder of the kbuild under test
	build  = sync.OnceValue(buildKbuild)
)

// Main is the TestMain of an end-to-end test package. The functions in after clean up shared state.
func Main(m *testing.M, after ...func()) {
	var err error
	if binDir, err = os.MkdirTemp("", "kbuild-e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tooltest.Normalize()
	os.Setenv("XDG_RUNTIME_DIR", binDir) // share the machine only with builds of these tests
	status := m.Run()
	for _, end := range after {
		end()
	}
	os.RemoveAll(binDir)
	os.Exit(status)
}

// buildKbuild builds kbuild as the Makefile does. If KBUILD_TEST_BIN names a folder with the
// programs, it uses those. make sets it, and so do machines without Go.
func buildKbuild() error {
	if dir := os.Getenv("KBUILD_TEST_BIN"); dir != "" {
		for _, name := range []string{"kbuild", "kbuild-cc"} {
			program := filepath.Join(dir, name)
			if _, err := os.Stat(program); err != nil { // go test sees it, as in noteSources
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

// noteSources stats kbuild's source files. `go test` caches a result while all files that the test
// observed are unchanged. It does not see what child processes read, such as the one that builds
// kbuild.
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
