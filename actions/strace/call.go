package strace

import (
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

// parseCall parses "openat(AT_FDCWD</x>, "a", O_RDONLY) = 3</x/a>".
func parseCall(s string) (call, error) {
	name, rest, ok := strings.Cut(s, "(")
	if !ok || strings.ContainsAny(name, " \"<") {
		return call{}, fmt.Errorf("it is no call")
	}
	c := call{name: name}
	var err error
	if c.args, rest, err = parseArgs(rest); err != nil {
		return c, err
	}
	_, rest, ok = strings.Cut(rest, "= ")
	if !ok {
		return c, fmt.Errorf("a call without a result")
	}
	c.result, rest, _ = strings.Cut(rest, " ")
	c.result, _, _ = strings.Cut(c.result, "<")
	if strings.HasPrefix(c.result, "-") {
		c.errno, _, _ = strings.Cut(rest, " ")
	}
	return c, nil
}

// parseArgs parses arguments up to the closing parenthesis. It keeps structures and lists as text.
func parseArgs(s string) (args []arg, rest string, err error) {
	var a arg
	depth := 0
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"':
			text, used, err := unquote(s[i:])
			if err != nil {
				return nil, "", err
			}
			if depth == 0 && a.text == "" {
				a.quoted = true
			}
			a.text += text
			i += used - 1
			if strings.HasPrefix(s[i+1:], "...") && depth == 0 && a.quoted {
				return nil, "", fmt.Errorf("a name is cut off")
			}
		// Special characters in the path are escaped.
		case b == '<' && (a.text == "AT_FDCWD" || isNumber(a.text)) && depth == 0:
			end := strings.IndexByte(s[i:], '>')
			if end < 0 {
				return nil, "", fmt.Errorf("the path of a descriptor does not end")
			}
			if a.path, _, err = unquote(`"` + s[i+1:i+end] + `"`); err != nil {
				return nil, "", err
			}
			i += end
		case b == ')' && depth == 0:
			if len(args) > 0 || a.text != "" || a.quoted {
				args = append(args, a)
			}
			return args, s[i+1:], nil
		case b == ',' && depth == 0:
			args, a = append(args, a), arg{}
		case b == ' ' && depth == 0:
		default:
			switch b {
			case '(', '{', '[':
				depth++
			case ')', '}', ']':
				depth--
			}
			a.text += string(b)
		}
	}
	return nil, "", fmt.Errorf("a call that does not end")
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// unquote parses a C string at the start of s, and returns its length there.
func unquote(s string) (text string, used int, err error) {
	var b []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(b), i + 1, nil
		case c != '\\':
			b = append(b, c)
		case i+1 == len(s):
			return "", 0, fmt.Errorf("a string that does not end")
		default:
			i++
			if at := strings.IndexByte("abtnvfr", s[i]); at >= 0 {
				b = append(b, "\a\b\t\n\v\f\r"[at])
				continue
			}
			digits := 0
			for digits < 3 && i+digits < len(s) && s[i+digits] >= '0' && s[i+digits] <= '7' {
				digits++
			}
			switch n, err := strconv.ParseUint(s[i:i+digits], 8, 8); {
			case s[i] == 'x' && i+2 < len(s):
				h, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
				if err != nil {
					return "", 0, err
				}
				b, i = append(b, byte(h)), i+2
			case digits == 0:
				b = append(b, s[i])
			case err != nil:
				return "", 0, err
			default:
				b, i = append(b, byte(n)), i+digits-1
			}
		}
	}
	return "", 0, fmt.Errorf("a string that does not end")
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
