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

// A command whose files are known only after it has run has a folder of its own. An action of the
// kind Generate runs it and puts what it has written there into one file, a pack, beside the list
// of names; one of the kind Extract makes the files of the pack. So what is planned, keyed and
// cached has fixed names, and the files of the second action are those that the list had when the
// manifest was read.

// Collect is of a command that writes files whose names it chooses: Outputs are their list and
// their pack.
type Collect struct {
	Dir      string   // the folder that the files are written to, and that has nothing else
	Patterns []string // relative to Dir: each file matches one, and each matches a file
}

// WriteKey adds what is collected.
func (c *Collect) WriteKey(w KeyWriter) {
	if c != nil {
		w.Field("folder", c.Dir)
		w.Field("patterns", strings.Join(c.Patterns, "\n"))
	}
}

// CollectOutputs are the list and the pack of what is collected in a folder.
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

// PackFiles gives a list and a pack. Files have distinct names without newlines.
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

// UnpackFiles reads a pack. The contents are parts of it.
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

// ReadFileList reads a list of files; ok is false for what is none.
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

// isFileName reports a relative path that stays where it is relative to.
func isFileName(name string) bool {
	return name != "." && path.Clean(name) == name && filepath.IsLocal(name)
}

// MatchFile reports whether a slash-separated name matches a pattern: `*`, `?` and `[...]` within
// an element, and `**` for any number of elements; at the end at least one. Names with a leading
// dot are as others. A malformed pattern matches nothing.
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
// of elements, also none, and element says of the others what they match. It goes back to the last
// ** only: what an earlier one would take, that one takes too.
func MatchPath(patternPath, namePath string, element func(pattern, name string) bool) bool {
	pattern, name := strings.Split(patternPath, "/"), strings.Split(namePath, "/")
	again, at := -1, 0 // the pattern behind the last **, and where in name it is tried
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
