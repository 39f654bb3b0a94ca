package pptext

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Files returns the files that the line markers of a preprocessed text name, as spelled, each once,
// in the order in which they begin.
func Files(text []byte, withoutSystem bool) (files []string) {
	seen := map[string]bool{}
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		// With -g, DIR// is the working directory.
		if name, system := markedFile(line); name != "" && name[0] != '<' && !strings.HasSuffix(name, "//") && !seen[name] {
			seen[name] = true
			if !system || !withoutSystem {
				files = append(files, name)
			}
		}
	}
	return files
}

// Placed reports whether a preprocessed text depends on its base, an absolute folder. It does if
// its code contains the base, or may query the name of its file. Names in line markers do not
// count, those in includes (see g++ -dI) do.
func Placed(text []byte, base string) bool {
	if bytes.Contains(text, []byte("__builtin_FILE")) || bytes.Contains(text, []byte("__builtin_source_location")) {
		return true
	}
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(base))
		if i < 0 {
			return false
		}
		line := text[bytes.LastIndexByte(text[:at+i], '\n')+1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		// g++ -dU writes the #define lines.
		if name, _ := markedFile(line); name == "" && !bytes.HasPrefix(line, []byte("#define ")) {
			return true
		}
		at += i + len(base)
	}
}

// markedFile returns the file of a line marker, # 12 "a.h" 1 3, and whether it is a system header
// (3). It returns "" for any other line.
func markedFile(line []byte) (name string, system bool) {
	rest, ok := bytes.CutPrefix(line, []byte("# "))
	if !ok {
		return "", false
	}
	at := bytes.IndexByte(rest, '"')
	if _, err := strconv.Atoi(string(bytes.TrimSpace(rest[:max(at, 0)]))); at < 0 || err != nil {
		return "", false
	}
	quoted := rest[at:]
	end := bytes.LastIndexByte(quoted, '"')
	name, err := strconv.Unquote(string(quoted[:end+1]))
	if err != nil {
		return "", false
	}
	return name, slices.Contains(strings.Fields(string(quoted[end+1:])), "3")
}
