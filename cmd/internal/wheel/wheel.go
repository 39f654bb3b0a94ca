package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
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

// tags returns the platforms that can use the wheel. The programs are static. The glibc 2.17
// requirement comes from nvcc.
func (w *wheel) tags() []string {
	return []string{"py3-none-manylinux2014_" + w.platform, "py3-none-manylinux_2_17_" + w.platform}
}

// name returns the file name, which pip parses.
func (w *wheel) name() string {
	return "kbuild-" + w.version + "-py3-none-manylinux2014_" + w.platform + ".manylinux_2_17_" + w.platform + ".whl"
}

// script adds a program, which pip copies unchanged to the environment's bin folder. A Python entry
// point would start an interpreter for each call.
func (w *wheel) script(name string, data []byte) {
	w.add("kbuild-"+w.version+".data/scripts/"+name, program, data)
}

func (w *wheel) add(name string, mode fs.FileMode, data []byte) {
	w.files = append(w.files, file{name, mode, data})
}

// modules adds the Python package kbuild.
func (w *wheel) modules() error {
	return fs.WalkDir(python, "python", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := python.ReadFile(name)
		w.add("kbuild/"+strings.TrimPrefix(name, "python/"), plain, data)
		return err
	})
}

// describe adds the metadata for pip: the description, and the list of all files with their
// digests.
func (w *wheel) describe(readme, license []byte) {
	info := "kbuild-" + w.version + ".dist-info/"
	metadata := "Metadata-Version: 2.1\nName: kbuild\nVersion: " + w.version + "\nSummary: Builds multi-architecture GPU programs with link-time optimisation\n" +
		"License-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
	w.add(info+"METADATA", plain, append([]byte(metadata), readme...))
	w.add(info+"WHEEL", plain, []byte("Wheel-Version: 1.0\nGenerator: kbuild "+w.version+"\nRoot-Is-Purelib: false\nTag: "+strings.Join(w.tags(), "\nTag: ")+"\n"))
	w.add(info+"entry_points.txt", plain, []byte("[cmake.prefix]\nkbuild = kbuild\n"))
	w.add(info+"LICENSE", plain, license)
	slices.SortFunc(w.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var record bytes.Buffer
	for _, f := range w.files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	w.add(info+"RECORD", plain, record.Bytes()) // last, as the format recommends
}

// pack returns the archive. It contains no timestamps and no users, so equal files give equal
// bytes.
func (w *wheel) pack() ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range w.files {
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
	err := z.Close()
	return out.Bytes(), err
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
