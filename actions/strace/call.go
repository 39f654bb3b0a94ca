package strace

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// call is a system call that returned.
type call struct {
	name   string
	args   []arg
	result string // its first word
	errno  string // "ENOENT"; "" if there was no error
}

// arg is an argument: a string or a word, with a path if it is a descriptor.
type arg struct {
	text   string
	quoted bool
	path   string // of a descriptor
}

// parseCall parses "openat(AT_FDCWD<\x2f>, "\x61", O_RDONLY) = 3<\x2f\x61>". Strings and paths of
// descriptors are in hex, so they contain none of the characters that separate arguments.
func parseCall(s string) (c call, err error) {
	name, rest, ok := strings.Cut(s, "(")
	if !ok || strings.ContainsAny(name, " \"<") {
		return c, fmt.Errorf("it is no call")
	}
	end := strings.LastIndex(rest, " = ")
	if end < 0 {
		return c, fmt.Errorf("a call without a result")
	}
	args, ok := strings.CutSuffix(strings.TrimRight(rest[:end], " "), ")")
	if !ok {
		return c, fmt.Errorf("a call that does not end")
	}
	c.name = name
	c.result, rest, _ = strings.Cut(rest[end+len(" = "):], " ")
	c.result, _, _ = strings.Cut(c.result, "<")
	if strings.HasPrefix(c.result, "-") {
		c.errno, _, _ = strings.Cut(rest, " ")
	}
	depth, start := 0, 0
	for i, b := range args + "," {
		switch b {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			a, err := parseArg(strings.TrimSpace((args + ",")[start:i]))
			if err != nil {
				return c, err
			}
			c.args, start = append(c.args, a), i+1
		}
	}
	return c, nil
}

// parseArg parses an argument. It keeps structures and lists as text.
func parseArg(s string) (a arg, err error) {
	if text, ok := strings.CutPrefix(s, `"`); ok {
		if text, ok = strings.CutSuffix(text, `"`); !ok {
			return a, fmt.Errorf("a name is cut off")
		}
		a.quoted = true
		a.text, err = decode(text)
		return a, err
	}
	word, file, ok := strings.Cut(s, "<")
	if !ok || word != "AT_FDCWD" && !isNumber(word) {
		return arg{text: s}, nil
	}
	if file, _, ok = strings.Cut(file, ">"); !ok { // "(deleted)" may follow
		return a, fmt.Errorf("the path of a descriptor does not end")
	}
	a.text = word
	a.path, err = decode(file)
	return a, err
}

// decode decodes "\x2f\x61".
func decode(s string) (string, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	return string(b), err
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

func (c call) ok() bool { return c.errno == "" && c.result != "?" }

// missed reports whether the path did not exist for the process. That includes a symbolic link
// whose target does not exist.
func (c call) missed() bool {
	return c.errno == "ENOENT" || c.errno == "ENOTDIR" || c.errno == "ELOOP" || c.errno == "EACCES"
}

// has reports whether a flag is among the arguments.
func (c call) has(flag string) bool {
	for _, a := range c.args {
		if a.quoted {
			continue
		}
		if slices.Contains(strings.FieldsFunc(a.text, func(r rune) bool { return strings.ContainsRune("|={},", r) }), flag) {
			return true
		}
	}
	return false
}

// names returns the absolute paths that the call names. Each is relative to the descriptor before
// it, or to cwd. An empty name means the descriptor itself, which was opened before.
func (c call) names(cwd string) (names []string) {
	switch c.name {
	case "execve", "execveat", "readlink", "readlinkat": // the other strings are not names
		for i, a := range c.args {
			if a.quoted {
				return absolute(names, c.base(i, cwd), a.text)
			}
		}
		return nil
	case "symlink", "symlinkat": // the first is the link's content
		last := len(c.args) - 1
		if last < 1 || !c.args[last].quoted {
			return nil
		}
		return absolute(nil, c.base(last, cwd), c.args[last].text)
	}
	for i, a := range c.args {
		if a.quoted {
			names = absolute(names, c.base(i, cwd), a.text)
		}
	}
	return names
}

func absolute(names []string, base, name string) []string {
	if name != "" && !path.IsAbs(name) {
		name = base + "/" + name
	}
	if name == "" {
		return names
	}
	return append(names, name)
}

// base returns the folder that argument i is relative to.
func (c call) base(i int, cwd string) string {
	if i > 0 && c.args[i-1].path != "" {
		return c.args[i-1].path
	}
	return cwd
}

// opened returns the uses of a successful open. An open that creates or truncates the file reads
// nothing from it.
func (c call) opened() []Use {
	writes := c.has("O_WRONLY") || c.has("O_RDWR") || c.name == "creat"
	switch {
	case c.has("O_PATH"):
		return nil
	case c.has("O_DIRECTORY"):
		return []Use{Listed}
	case !writes:
		return []Use{Read}
	case c.name == "creat" || c.has("O_TRUNC") || c.has("O_EXCL"):
		return []Use{Wrote}
	case c.has("O_RDWR"):
		return []Use{Read, Wrote}
	}
	return []Use{Wrote}
}
