// Command wheel builds a wheel of kbuild for pip: the programs of a folder, the CMake package and
// some Python. `make wheel` runs it. It knows the wheel format, and not what it packs. It is
// written in Go because the build needs Go anyway; a Python with a wheel module might be missing.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// wheel is a Python distribution that pip installs into an environment. The format is PyPA's
// "binary distribution format" (PEP 427).
type wheel struct {
	version  string // in Python's version scheme
	platform string // x86_64, aarch64
	files    []file
}

type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// python holds the modules of the Python package kbuild.
//
//go:embed python/*.py
var python embed.FS

const program, plain fs.FileMode = 0o755, 0o644

func main() {
	version := flag.String("version", "unknown", "what git describe says")
	next := flag.String("next", "", "the release to come")
	platform := flag.String("platform", "x86_64", "x86_64 or aarch64")
	programs := flag.String("programs", "", "the folder of the programs")
	cmake := flag.String("cmake", "", "the folder of the package of CMake")
	out := flag.String("out", "dist", "where to write the wheel")
	flag.Parse()
	w := &wheel{version: pythonVersion(*version, *next), platform: *platform}
	data, err := w.build(os.DirFS(*programs), os.DirFS(*cmake), os.DirFS("."))
	// pip parses the name. The programs are static; nvcc needs glibc 2.17.
	name := filepath.Join(*out, fmt.Sprintf("kbuild-%s-py3-none-manylinux2014_%[2]s.manylinux_2_17_%[2]s.whl", w.version, w.platform))
	if err == nil {
		fmt.Println(name)
		err = os.WriteFile(name, data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// build returns the wheel of programs, a CMake package and files of the repository.
func (w *wheel) build(programs, cmake, repository fs.FS) ([]byte, error) {
	info := "kbuild-" + w.version + ".dist-info/"
	err := errors.Join(
		w.add("kbuild/", plain, python, "python/*"),
		// pip copies a script unchanged to the environment's bin folder. A Python entry point would
		// start an interpreter for each call.
		w.add("kbuild-"+w.version+".data/scripts/", program, programs, "*"),
		w.add("kbuild/cmake/", plain, cmake, "*"),
		w.add("kbuild/", plain, repository, "examples/modules/kbuild_load.h"),
		w.add("kbuild/", plain, repository, "examples/modules/kbuild_loader.py"),
		w.add(info, plain, repository, "LICENSE"))
	readme, readErr := fs.ReadFile(repository, "README.md")
	if err = errors.Join(err, readErr); err != nil {
		return nil, err
	}
	metadata := "Metadata-Version: 2.1\nName: kbuild\nVersion: " + w.version + "\nSummary: Builds multi-architecture GPU programs with link-time optimisation\n" +
		"License-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
	tags := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: kbuild %s\nRoot-Is-Purelib: false\nTag: py3-none-manylinux2014_%[2]s\nTag: py3-none-manylinux_2_17_%[2]s\n", w.version, w.platform)
	w.files = append(w.files, file{info + "METADATA", plain, append([]byte(metadata), readme...)}, file{info + "WHEEL", plain, []byte(tags)},
		file{info + "entry_points.txt", plain, []byte("[cmake.prefix]\nkbuild = kbuild\n")})
	slices.SortFunc(w.files, func(a, b file) int { return strings.Compare(a.name, b.name) })

	// The archive contains no timestamps and no users, so equal files give equal bytes. The list of
	// all files with their digests is last, as the format recommends.
	var out, record bytes.Buffer
	for _, f := range w.files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	z := zip.NewWriter(&out)
	for _, f := range append(w.files, file{info + "RECORD", plain, record.Bytes()}) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return out.Bytes(), err
}

// add adds the files of a folder that match a pattern.
func (w *wheel) add(to string, mode fs.FileMode, from fs.FS, pattern string) error {
	names, err := fs.Glob(from, pattern)
	if len(names) == 0 {
		err = errors.Join(err, fmt.Errorf("there is no %s", pattern))
	}
	for _, name := range names {
		data, readErr := fs.ReadFile(from, name)
		err = errors.Join(err, readErr)
		base := path.Base(name)
		if base == "kbuild_loader.py" {
			base = "loader.py"
		}
		w.files = append(w.files, file{to + base, mode, data})
	}
	return err
}

// pythonVersion converts the output of `git describe` to Python's version scheme. A commit after a
// tag sorts before the next release. Its name after a plus keeps package indexes from accepting it.
// next is the next release.
func pythonVersion(described, next string) string {
	tag := regexp.MustCompile(`^v?(\d+(?:\.\d+)+)$`).FindStringSubmatch(described)
	if tag != nil {
		return tag[1]
	}
	local := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(path.Base(described)), ".")
	behind := regexp.MustCompile(`^v?\d+(?:\.\d+)+-(\d+)-g`).FindStringSubmatch(described)
	number := "0"
	if behind != nil {
		number = behind[1]
	}
	return next + ".dev" + number + "+" + strings.Trim(local, ".")
}
