package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/install"
)

type cmakeCmd struct {
	Targets   []string `arg:"" optional:"" help:"Libraries, or modules."`
	Namespace string   `placeholder:"NAME" default:"kbuild" help:"The namespace of the imported targets (default: kbuild)."`
	Package   string   `placeholder:"DIR" help:"Write the package that find_package(kbuild) reads into this folder."`
}

// Run prints the file that kbuild_add_library includes, or writes the CMake package.
func (cmd cmakeCmd) Run(c *cli) error {
	if cmd.Package != "" {
		return writePackage(c, cmd.Package)
	}
	if len(cmd.Targets) == 0 {
		return usagef("cmake wants the names of libraries or modules, or --package DIR")
	}
	w := c.workspace()
	w.Exports = true
	p, err := w.Plan()
	if err != nil {
		return err
	}
	toolkit := p.Facts.Toolchains()["cuda"].Info()
	tree := install.Tree{Name: cmd.Namespace, Exports: p.Exports, Archs: toolkit.Archs, Toolkit: toolkit.LibDirs}
	if tree.Labels, err = labelsOf(p, "cmake", cmd.Targets); err != nil {
		return err
	}
	text, diags, err := tree.CMake(p.Project)
	p.Quote(diags)
	c.Diagnose(diags)
	if diags.HasErrors() {
		return engine.ErrDiagnosed
	}
	if err == nil {
		_, err = fmt.Fprint(c.out, text)
	}
	return err
}

//go:embed kbuild-config.cmake
var kbuildConfig string

// installedHints lists where find_program looks for kbuild, relative to the package. The first
// entry is for PREFIX/lib/cmake/kbuild. The second is for a wheel, where the package is in
// ENVIRONMENT/lib/pythonX.Y/site-packages/kbuild/cmake.
const installedHints = `"${CMAKE_CURRENT_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../../../bin"`

// writePackage writes the CMake package into dir and prints the paths of its files. A package in
// lib/cmake/kbuild finds kbuild relative to itself, so its prefix can be moved. Any other package
// names the absolute path of this program.
func writePackage(c *cli, dir string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Dir(program)
	if strings.ContainsAny(bin, `"\$;`) {
		return fmt.Errorf("CMake cannot name %s: it splits or expands it", bin)
	}
	hints := `"` + bin + `"`
	if dir = c.seen(dir); strings.HasSuffix(filepath.ToSlash(filepath.Clean(dir)), "lib/cmake/kbuild") {
		hints = installedHints
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, f := range []struct{ name, text string }{
		{"kbuild-config.cmake", strings.ReplaceAll(kbuildConfig, "@HINTS@", hints)},
		{"kbuild-config-version.cmake", install.CMakeVersion("kbuild", versionNumber(version))},
		{"kbuild-launcher.cmake", launcherText("")},
	} {
		file := filepath.Join(dir, f.name)
		err = errors.Join(err, os.WriteFile(file, []byte(f.text), 0o666))
		fmt.Fprintln(c.out.Paths(), file)
	}
	return err
}

// versionNumber returns the part of a version that CMake can compare: 1.2.0 for v1.2.0-3-gabc. A
// commit without a tag before it counts as the next release.
func versionNumber(version string) string {
	if found := regexp.MustCompile(`^v?(\d+\.\d+(\.\d+)*)`).FindStringSubmatch(version); found != nil {
		return found[1]
	}
	return nextRelease
}
