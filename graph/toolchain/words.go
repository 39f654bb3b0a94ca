package toolchain

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Assignment splits NAME=value. ok is false if NAME is no variable name.
func Assignment(s string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(s, "=")
	if !ok || name == "" || variableName(name) != name {
		return "", "", false
	}
	return name, value, true
}

// ShellWords splits a command that nvcc prints as the shell does. It handles blanks, quotes,
// backslashes, and the variables of assigned. Anything else that a shell would expand or connect is
// an error.
func ShellWords(s string, assigned map[string]string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("\"\\$`", s[i+1]) >= 0):
			i++
			word.WriteByte(s[i])
			inWord = true
		case c == '\'' && !quoted:
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("an open quote")
			}
			word.WriteString(s[i+1:][:end])
			inWord = true
			i += end + 1
		case c == '"':
			quoted, inWord = !quoted, true
		case c == '$':
			value, length, err := expand(s[i:], assigned, quoted)
			if err != nil {
				return nil, err
			}
			word.WriteString(value)
			inWord = true
			i += length - 1
		case c == '`':
			return nil, errors.New("a backquote")
		case quoted:
			word.WriteByte(c)
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case strings.IndexByte("|&;<>()", c) >= 0:
			return nil, fmt.Errorf("the shell's %q", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quoted {
		return nil, errors.New("an open quote")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// expand returns the value of the variable reference at the start of s, and the length of the
// reference. A shell would split an unquoted value and expand its patterns. Whether it expands a
// '$' in a value depends on how the variable was set. Both are errors.
func expand(s string, assigned map[string]string, quoted bool) (value string, length int, err error) {
	name := variableName(s[1:])
	length = 1 + len(name)
	if inner, _, ok := strings.Cut(s[1:], "}"); ok && strings.HasPrefix(inner, "{") {
		name = variableName(inner[1:])
		length = 1 + len(inner) + 1
		if len(name) != len(inner)-1 {
			name = "" // ${NAME:-other} and the like
		}
	}
	value, ok := assigned[name]
	switch {
	case name == "" || !ok:
		return "", 0, errors.New("a '$' that stands for nothing which nvcc says")
	case strings.ContainsAny(value, "$`\"\\\n"), !quoted && (value == "" || strings.ContainsAny(value, " \t*?['")):
		return "", 0, fmt.Errorf("$%s, whose value a shell might change", name)
	}
	return value, length, nil
}

// variableName returns the variable name at the start of s, "" if there is none.
func variableName(s string) string {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return s[:i]
		}
	}
	return s
}

// ShellWord quotes a path for a shell if needed.
func ShellWord(path string) string {
	if strings.ContainsAny(path, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// ListWord quotes a name for a list option of NVIDIA's programs, which split it at commas: a folder
// of -I, a file of --options-file or of fatbinary's --image3. 11.8 treats brackets as quotes, too.
func ListWord(name string) string {
	if strings.ContainsAny(name, ",[]") {
		return `"` + name + `"`
	}
	return name
}

// LibraryPath returns an LD_LIBRARY_PATH reduced to its plain absolute folders. The dynamic loader
// (ld.so(8)) reads a semicolon as a colon and an empty entry as the working directory, and it
// expands $ORIGIN, $LIB and $PLATFORM. With those, the libraries of a compiler would depend on its
// working directory: it would load a libc.so.6 that lies in the project.
func LibraryPath(list string) string {
	dirs := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ';' })
	return strings.Join(slices.DeleteFunc(dirs, func(d string) bool { return !path.IsAbs(d) || strings.Contains(d, "$") }), ":")
}
