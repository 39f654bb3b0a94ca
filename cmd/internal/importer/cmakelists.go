package importer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"
	"sync"
)

// CMake files are parsed, never run. Variables, conditions and loops are followed only where they
// are simple. For a configured project, kbuild init --from queries CMake itself, which knows
// everything.

// cmake holds the state that the folders of one tree share.
type cmake struct {
	tree  *Tree
	seen  map[string]bool
	after map[string]map[string]string // variables at the end of a folder's file
	steps int
}

// cmakeScope interprets the CMake files of one folder.
type cmakeScope struct {
	*cmake
	dir  string
	vars map[string]string
	h    *hints
}

// configured is a header that configure_file generates from another file.
type configured struct {
	input, output string            // output is relative to the build folder
	values        map[string]string // for @NAME@
	from          string
}

// configured returns the input of a generated header.
func (t *Tree) configured(plain string) (output string, ok bool) {
	for _, c := range t.made {
		if path.Base(c.output) == path.Base(plain) && !t.has(c.output) && strings.HasSuffix("/"+c.output, "/"+plain) {
			return c.input, true
		}
	}
	return "", false
}

type cmakeCommand struct {
	name  string
	args  []string
	plain []bool // not quoted
	at    string
}

func (c *cmake) start(file string) {
	vars := map[string]string{"CMAKE_SOURCE_DIR": "/SRC", "CMAKE_BINARY_DIR": "/BIN", "UNIX": "1", "LINUX": "1", "CMAKE_SYSTEM_NAME": "Linux", "CMAKE_CXX_COMPILER_ID": "GNU", "CMAKE_C_COMPILER_ID": "GNU",
		"CMAKE_CUDA_COMPILER_ID": "NVIDIA", "CMAKE_BUILD_TYPE": "Release", "CMAKE_VERSION": "3.31.0", "CMAKE_SIZEOF_VOID_P": "8", "CMAKE_SYSTEM_PROCESSOR": "x86_64", "CMAKE_CUDA_COMPILER": "nvcc",
		"CMAKE_COMPILER_IS_GNUCXX": "1", "CMAKE_COMPILER_IS_GNUCC": "1"}
	for _, name := range []string{"CUDA_VERSION", "CUDA_VERSION_STRING", "CUDAToolkit_VERSION", "CMAKE_CUDA_COMPILER_VERSION"} {
		if c.tree.Machine.Version != "" {
			vars[name] = c.tree.Machine.Version
		}
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if above := c.after[dir]; above != nil { // a condition excluded this folder
			maps.Copy(vars, above)
			break
		}
		if dir == "." {
			vars["CMAKE_SOURCE_DIR"] = path.Join("/SRC", path.Dir(file))
			break
		}
	}
	c.folder(path.Dir(file), vars)
}

func (c *cmake) folder(dir string, vars map[string]string) {
	file := path.Join(dir, "CMakeLists.txt")
	if c.seen[file] {
		return
	}
	c.seen[file] = true
	s := &cmakeScope{c, dir, maps.Clone(vars), c.tree.hintsAt(dir)}
	s.vars["CMAKE_CURRENT_SOURCE_DIR"] = path.Join("/SRC", dir)
	s.vars["CMAKE_CURRENT_BINARY_DIR"] = path.Join("/BIN", dir)
	s.file(file)
	c.after[dir] = s.vars
}

func (s *cmakeScope) file(file string) {
	old := s.vars["CMAKE_CURRENT_LIST_DIR"]
	s.vars["CMAKE_CURRENT_LIST_DIR"] = path.Join("/SRC", path.Dir(file))
	s.run(cmakeCommands(s.tree.text(file), file))
	s.vars["CMAKE_CURRENT_LIST_DIR"] = old
}

// cmakeCommands parses a file into commands.
func cmakeCommands(text, file string) (all []cmakeCommand) {
	number := 1
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '\n':
			number++
			i++
		case b == '#':
			i += commentLength(text[i:], &number)
		case isWord(b):
			start := i
			for i < len(text) && isWord(text[i]) {
				i++
			}
			c := cmakeCommand{name: strings.ToLower(text[start:i]), at: fmt.Sprintf("%s:%d", file, number)}
			for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
				i++
			}
			if i < len(text) && text[i] == '(' {
				i += c.arguments(text[i:], &number)
				all = append(all, c)
			}
		default:
			i++
		}
	}
	return all
}

func commentLength(text string, number *int) int {
	n := strings.IndexByte(text, '\n')
	if strings.HasPrefix(text, "#[[") {
		n = strings.Index(text, "]]")
	}
	if n < 0 {
		n = len(text)
	}
	*number += strings.Count(text[:n], "\n")
	return max(n, 1)
}

// arguments parses the arguments from the parenthesis on. It returns their length in bytes.
func (c *cmakeCommand) arguments(text string, number *int) int {
	depth := 0
	add := func(s string, plain bool) { c.args, c.plain = append(c.args, s), append(c.plain, plain) }
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '(' || b == ')':
			if b == '(' {
				depth++
			} else {
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
			if depth > 1 || b == ')' {
				add(string(b), true)
			}
		case b == '#':
			i += commentLength(text[i:], number)
		case b == '\n' || b == ' ' || b == '\t' || b == '\r' || b == ';':
			if b == '\n' {
				*number++
			}
			i++
		default:
			word, plain, n := cmakeWord(text[i:])
			add(word, plain)
			*number += strings.Count(text[i:i+n], "\n")
			i += n
		}
	}
	return len(text)
}

// cmakeWord parses one argument. plain reports whether it is unquoted, n is its length in bytes.
func cmakeWord(text string) (word string, plain bool, n int) {
	switch {
	case text[0] == '"':
		end := 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(text))
		return strings.ReplaceAll(text[1:end], `\"`, `"`), false, min(end+1, len(text))
	case strings.HasPrefix(text, "[["):
		end := strings.Index(text, "]]")
		if end < 0 {
			return text[2:], false, len(text)
		}
		return text[2:end], false, end + 2
	}
	inner := 0
	for n < len(text) && !strings.ContainsRune(" \t\r\n;#", rune(text[n])) {
		switch text[n] {
		case '"': // NAME="a b"
			if end := strings.IndexByte(text[n+1:], '"'); end >= 0 {
				n += end + 1
			}
		case '(':
			inner++
		case ')':
			inner--
		}
		if inner < 0 {
			break
		}
		n++
	}
	return text[:max(n, 1)], true, max(n, 1)
}

// run interprets commands. It skips the bodies of functions.
func (s *cmakeScope) run(all []cmakeCommand) {
	var open []branch
	for i := 0; i < len(all); i++ {
		if s.steps++; s.steps > 200000 {
			return
		}
		c := all[i]
		top := len(open) - 1
		active := top < 0 || open[top].outer == yes && open[top].now == yes
		switch c.name {
		case "if":
			holds := no
			if active {
				holds = s.condition(c)
			}
			open = append(open, branch{truth(active), holds, holds})
		case "elseif", "else":
			if top >= 0 {
				holds := yes
				if c.name == "elseif" {
					holds = s.condition(c)
				}
				open[top].now, open[top].taken = min(holds, open[top].taken.not()), max(holds, open[top].taken)
			}
		case "endif":
			open = open[:max(top, 0)]
		case "function", "macro":
			i = blockEnd(all, i, c.name)
		case "foreach":
			end := blockEnd(all, i, "foreach")
			if active {
				s.loop(c, all[i+1:end])
			}
			i = end
		case "return":
			if active {
				return
			}
		default:
			if active {
				s.command(c)
			}
		}
	}
}

func blockEnd(all []cmakeCommand, i int, name string) int {
	depth := 0
	for ; i < len(all); i++ {
		switch all[i].name {
		case name:
			depth++
		case "end" + name:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(all) - 1
}

func (s *cmakeScope) loop(c cmakeCommand, body []cmakeCommand) {
	args := s.values(c)
	if len(args) < 2 || args[1] == "RANGE" {
		return
	}
	items := args[1:]
	if len(c.args) > 2 && c.args[1] == "IN" {
		items = args[3:]
		if c.args[2] == "LISTS" {
			items = nil
			for _, name := range args[3:] {
				items = append(items, splitList(s.vars[name])...)
			}
		}
	}
	for _, item := range items {
		s.vars[args[0]] = item
		s.run(body)
	}
}

func splitList(text string) (out []string) {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ';' })
}

var cmakeVarRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([^${}]*)\}`) })

// expand substitutes variables. Environment variables are unknown.
func (s *cmakeScope) expand(text string) string {
	text = strings.ReplaceAll(text, "$ENV{", unknown+"{")
	for range 20 {
		if !strings.Contains(text, "${") || len(text) > 1<<18 {
			return text
		}
		text = cmakeVarRE().ReplaceAllStringFunc(text, func(m string) string { return s.vars[m[2:len(m)-1]] })
	}
	return text
}

// values returns the arguments with variables substituted. Unquoted lists become several arguments.
func (s *cmakeScope) values(c cmakeCommand) (out []string) {
	for i, a := range c.args {
		v := s.expand(a)
		if c.plain[i] {
			out = append(out, splitList(v)...)
		} else {
			out = append(out, v)
		}
	}
	return out
}
