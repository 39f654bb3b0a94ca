// Package fileset names the folders of generated files, and packs the files that a command chose. It
// imports none of our packages.
package fileset

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A command with dynamic outputs writes to a folder of its own. A Generate action runs it and packs
// the files into one file, beside the list of their names. An Extract action restores the files
// from the pack. So everything that is planned, keyed and cached has fixed names. The Extract
// action writes the files that the list had when the manifest was read.

// GenDir is the folder in the build tree for generated files. The outputs of each generate block
// are in a folder of its name; the sources of embedded modules are there, too.
const GenDir = "gen"

// Flat returns the name of a target as one path element: math@vec for math/vec of an imported
// manifest. No name contains an @, so the folders of two targets never collide or nest.
func Flat(name string) string { return strings.ReplaceAll(name, "/", "@") }

// ListAndPack returns the list and the pack of the dynamic outputs in a folder.
func ListAndPack(dir string) (list, pack string) {
	hidden := path.Join(path.Dir(dir), "."+path.Base(dir))
	return hidden + ".list", hidden + ".pack"
}

// File is a file of a pack.
type File struct {
	Name    string // relative to the folder, slash-separated
	Exec    bool
	Content []byte
}

const filesMagic = "kbuild files 1\n"

// Pack returns the list and the pack of files. Files have distinct names without newlines.
func Pack(files []File) (list, pack []byte) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	pack = []byte(filesMagic)
	for _, f := range files {
		list = append(append(list, f.Name...), '\n')
		mode := 'f'
		if f.Exec {
			mode = 'x'
		}
		pack = fmt.Appendf(pack, "%c %d %s\n", mode, len(f.Content), f.Name)
	}
	pack = append(pack, '\n')
	for _, f := range files {
		pack = append(pack, f.Content...)
	}
	return list, pack
}

// Unpack parses a pack. The contents are slices of it.
func Unpack(pack []byte) (files []File, err error) {
	rest, ok := bytes.CutPrefix(pack, []byte(filesMagic))
	var sizes []int
	for ok {
		var line []byte
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); len(line) == 0 {
			break
		}
		fields := strings.SplitN(string(line), " ", 3)
		if len(fields) != 3 || !isFileName(fields[2]) {
			return nil, fmt.Errorf("a pack has the line %q", line)
		}
		n, err := strconv.Atoi(fields[1])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("a pack has the line %q", line)
		}
		sizes = append(sizes, n)
		files = append(files, File{Name: fields[2], Exec: fields[0] == "x"})
	}
	for i, n := range sizes {
		if n > len(rest) {
			return nil, fmt.Errorf("a pack ends early")
		}
		files[i].Content, rest = rest[:n:n], rest[n:]
	}
	if !ok || len(rest) > 0 {
		return nil, fmt.Errorf("a pack of %d bytes is damaged", len(pack))
	}
	return files, nil
}

// ReadList parses a list of files. ok is false if it is malformed or empty.
func ReadList(text []byte) (names []string, ok bool) {
	for line := range strings.Lines(string(text)) {
		name, ended := strings.CutSuffix(line, "\n")
		if !ended || !isFileName(name) || len(names) > 0 && names[len(names)-1] >= name {
			return nil, false
		}
		names = append(names, name)
	}
	return names, len(names) > 0
}

// isFileName reports whether name is a clean relative path that stays in its folder.
func isFileName(name string) bool {
	return name != "." && path.Clean(name) == name && filepath.IsLocal(name)
}

// Match reports whether a slash-separated name matches a pattern: `*`, `?` and `[...]` within
// an element, and `**` for any number of elements; at the end at least one. Names with a leading
// dot are not special. A malformed pattern matches nothing.
func Match(pattern, name string) bool {
	if path.Base(pattern) == "**" {
		pattern += "/*"
	}
	return MatchPath(pattern, name, func(pattern, name string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// MatchPath reports whether a slash-separated name matches a pattern, in which `**` is any number
// of elements, including none. element matches all other elements. It backtracks only to the last
// `**`, which can match whatever an earlier one could.
func MatchPath(patternPath, namePath string, element func(pattern, name string) bool) bool {
	pattern, name := strings.Split(patternPath, "/"), strings.Split(namePath, "/")
	again, at := -1, 0 // the pattern after the last **, and where in name it is tried
	i, k := 0, 0
	for k < len(name) || i < len(pattern) {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			i++
			again, at = i, k
		case i < len(pattern) && k < len(name) && element(pattern[i], name[k]):
			i++
			k++
		case again >= 0 && at < len(name):
			at++
			i, k = again, at
		default:
			return false
		}
	}
	return true
}
