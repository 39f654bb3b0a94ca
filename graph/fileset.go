package graph

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

// Collect describes a command with dynamic outputs. The outputs of its action are their list and
// their pack.
type Collect struct {
	Dir string // the folder of the files, which contains nothing else

	// Relative to Dir: each file matches a pattern, and each pattern matches a file.
	Patterns []string
}

// WriteKey adds the folder and the patterns.
func (c *Collect) WriteKey(w KeyWriter) {
	if c != nil {
		w.Field("folder", c.Dir)
		w.Field("patterns", strings.Join(c.Patterns, "\n"))
	}
}

// CollectOutputs returns the list and the pack of the dynamic outputs in a folder.
func CollectOutputs(dir string) (list, pack string) {
	hidden := path.Join(path.Dir(dir), "."+path.Base(dir))
	return hidden + ".list", hidden + ".pack"
}

// PackedFile is a file of a pack.
type PackedFile struct {
	Name    string // relative to the folder, slash-separated
	Exec    bool
	Content []byte
}

const filesMagic = "kbuild files 1\n"

// PackFiles returns the list and the pack of files. Files have distinct names without newlines.
func PackFiles(files []PackedFile) (list, pack []byte) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b PackedFile) int { return cmp.Compare(a.Name, b.Name) })
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

// UnpackFiles parses a pack. The contents are slices of it.
func UnpackFiles(pack []byte) (files []PackedFile, err error) {
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
		files = append(files, PackedFile{Name: fields[2], Exec: fields[0] == "x"})
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

// ReadFileList parses a list of files. ok is false if it is malformed or empty.
func ReadFileList(text []byte) (names []string, ok bool) {
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

// MatchFile reports whether a slash-separated name matches a pattern: `*`, `?` and `[...]` within
// an element, and `**` for any number of elements; at the end at least one. Names with a leading
// dot are not special. A malformed pattern matches nothing.
func MatchFile(pattern, name string) bool {
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
