// Command wheel builds a wheel of kbuild for pip: the programs of a folder, the CMake package and
// some Python. `make wheel` runs it. It knows the wheel format, and not what it packs. It is
// written in Go because the build needs Go anyway; a Python with a wheel module might be missing.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	version := flag.String("version", "unknown", "what git describe says")
	next := flag.String("next", "", "the release to come")
	platform := flag.String("platform", "x86_64", "x86_64 or aarch64")
	programs := flag.String("programs", "", "the folder of the programs")
	cmake := flag.String("cmake", "", "the folder of the package of CMake")
	out := flag.String("out", "dist", "where to write the wheel")
	flag.Parse()
	w := &wheel{version: pythonVersion(*version, *next), platform: *platform}
	if err := w.write(*programs, *cmake, *out); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// write writes the wheel and prints its name.
func (w *wheel) write(programs, cmake, out string) error {
	err := w.modules()
	if err != nil {
		return err
	}
	if err := each(programs, func(name string, data []byte) { w.script(name, data) }); err != nil {
		return err
	}
	if err := each(cmake, func(name string, data []byte) { w.add("kbuild/cmake/"+name, plain, data) }); err != nil {
		return err
	}
	for file, name := range map[string]string{"kbuild_loader.py": "loader.py", "kbuild_load.h": "kbuild_load.h"} {
		data, err := os.ReadFile(filepath.Join("examples", "modules", file))
		if err != nil {
			return err
		}
		w.add("kbuild/"+name, plain, data)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	w.describe(readme, license)
	data, err := w.pack()
	if err != nil {
		return err
	}
	name := filepath.Join(out, w.name())
	fmt.Println(name)
	return os.WriteFile(name, data, 0o644)
}

// each calls f for the files of a folder, sorted by name.
func each(dir string, f func(name string, data []byte)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		f(e.Name(), data)
	}
	return nil
}
