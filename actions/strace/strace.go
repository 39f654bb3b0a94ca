// Package strace parses strace's output for a command. It returns the paths that the processes of
// the command read, those that they probed and did not find, and those that they wrote. It knows
// nothing of actions, and reads no file but strace's output.
package strace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Args returns the command line that runs argv under strace, with its output in file. -y adds paths
// to descriptors, since a name may be relative to one. fchdir is traced separately, as it takes no
// name. -xx prints all strings in hex. With --seccomp-bpf only traced calls stop the processes.
func Args(file string, argv []string) []string {
	return append([]string{"strace", "-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-s", "4096",
		"-e", "trace=%file,%process,fchdir", "-e", "signal=none", "-o", file, "--"}, argv...)
}

// Check returns why commands cannot run under strace on this machine, as the end of a sentence.
func Check() error {
	if _, err := exec.LookPath("strace"); err != nil {
		return errors.New("is not in PATH: install it (on Debian and Ubuntu: apt install strace)")
	}
	argv := Args(os.DevNull, []string{"true"})
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("does not work here (%w): %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Use identifies how a process used a path.
type Use int

// Uses of a path. A Link is a path that readlink resolved.
const (
	Read   Use = iota // opened for reading
	Ran               // executed
	Listed            // opened as a folder
	Link              // a symbolic link whose target was read
	Looked            // probed and absent
	Wrote             // created, truncated, removed, or the new name of a rename
)

// Access is one use of a path.
type Access struct {
	Use  Use
	Path string // absolute, and not cleaned: only the file system can resolve "x/.."
	// Program that used it, by the name it was started with; "" before the first exec.
	Program string
}

// Parse parses strace's output for a command that was started in dir.
func Parse(r io.Reader, dir string) ([]Access, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	p := parser{procs: map[string]*process{}, begun: map[string]string{}, parents: parents(lines), dir: dir}
	for n, line := range lines {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d of what strace wrote: %w: %.200s", n+1, err, line)
		}
	}
	return p.out, nil
}

// parents returns the parent of each child process, by number. strace may print a child's calls
// before the call that started it returns, and only that return shows the child's number.
func parents(lines []string) map[string]string {
	of := map[string]string{}
	for _, line := range lines {
		pid, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimPrefix(strings.TrimLeft(rest, " "), "<... ")
		end := strings.IndexAny(rest, "( ")
		at := strings.LastIndex(rest, " = ")
		if end < 0 || at < 0 || !starts[rest[:end]] {
			continue
		}
		if child := rest[at+len(" = "):]; isNumber(child) {
			of[child] = pid
		}
	}
	return of
}

// folder is a working directory, which threads of a process share.
type folder struct{ path string }

type process struct {
	program string
	cwd     *folder
}

type parser struct {
	dir     string
	procs   map[string]*process // by number
	begun   map[string]string   // calls of a process that are not finished yet, by number
	parents map[string]string
	out     []Access
}

// line parses one line: "7 open("x", O_RDONLY) = 3". A call that is interrupted by others has two
// lines: "7 vfork( <unfinished ...>" and "7 <... vfork resumed>) = 8".
func (p *parser) line(line string) error {
	pid, rest, ok := strings.Cut(line, " ")
	rest = strings.TrimLeft(rest, " ")
	if !ok || pid == "" || strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
		return nil
	}
	if head, ok := strings.CutSuffix(rest, "<unfinished ...>"); ok {
		p.begun[pid] = strings.TrimRight(head, " ")
		return nil
	}
	if tail, ok := strings.CutPrefix(rest, "<... "); ok {
		_, tail, ok = strings.Cut(tail, " resumed>")
		head := p.begun[pid]
		delete(p.begun, pid)
		if !ok || head == "" {
			return fmt.Errorf("the end of a call that did not begin")
		}
		rest = head + tail
	}
	c, err := parseCall(rest)
	if err != nil {
		return err
	}
	return p.call(pid, c)
}

// process returns the process with a number. A new one inherits the working directory of its
// parent, which has not returned from the call that started it.
func (p *parser) process(pid string) (*process, error) {
	if proc := p.procs[pid]; proc != nil {
		return proc, nil
	}
	proc := &process{cwd: &folder{p.dir}}
	if parent := p.procs[p.parents[pid]]; parent != nil {
		proc = &process{program: parent.program, cwd: &folder{parent.cwd.path}}
	} else if len(p.procs) > 0 {
		return nil, fmt.Errorf("process %s was started by none that is known", pid)
	}
	p.procs[pid] = proc
	return proc, nil
}

var starts = map[string]bool{"fork": true, "vfork": true, "clone": true, "clone3": true}

// call records the effect of a call that has returned.
func (p *parser) call(pid string, c call) error {
	proc, err := p.process(pid)
	if err != nil {
		return err
	}
	switch {
	case starts[c.name]:
		if c.ok() {
			p.started(c, proc)
		}
		return nil
	case c.name == "exit" || c.name == "exit_group" || strings.HasPrefix(c.name, "wait"):
		return nil
	case c.name == "chroot" || c.name == "pivot_root" || c.name == "mount":
		if c.ok() {
			return fmt.Errorf("what names mean was changed by %s", c.name)
		}
	case c.name == "fchdir":
		if c.ok() && len(c.args) > 0 && c.args[0].path != "" {
			proc.cwd.path = c.args[0].path
		}
		return nil
	}
	names := c.names(proc.cwd.path)
	if len(names) == 0 {
		return nil
	}
	p.use(proc, c, names)
	return nil
}

// started records the child of a call. Threads share the working directory. The state of a child
// that was seen before its parent returned is kept.
func (p *parser) started(c call, parent *process) {
	child := p.procs[c.result]
	if child == nil {
		child = &process{program: parent.program, cwd: &folder{parent.cwd.path}}
		p.procs[c.result] = child
	}
	if c.has("CLONE_FS") {
		child.cwd = parent.cwd
	}
}

// use records what a call did with the paths that it names.
func (p *parser) use(proc *process, c call, names []string) {
	add := func(use Use, name string) { p.out = append(p.out, Access{use, name, proc.program}) }
	switch {
	case c.missed():
		if !removes[c.name] {
			add(Looked, names[0])
		}
	case !c.ok():
		if c.name == "execve" || c.name == "execveat" {
			add(Ran, names[0]) // it exists, but perhaps for another machine
		}
	case c.name == "chdir":
		proc.cwd.path = names[0]
	case c.name == "execve" || c.name == "execveat":
		proc.program = path.Base(names[0])
		add(Ran, names[0])
	case c.name == "readlink" || c.name == "readlinkat":
		add(Link, names[0])
	case strings.HasPrefix(c.name, "open") || c.name == "creat":
		for _, use := range c.opened() {
			add(use, names[0])
		}
	case makes[c.name]:
		add(Wrote, names[len(names)-1])
	case c.name == "rename" || c.name == "renameat" || c.name == "renameat2":
		add(Wrote, names[0])
		add(Wrote, names[len(names)-1])
	}
}

// removes are calls that remove a path. If the path is absent they have no effect.
var removes = map[string]bool{"unlink": true, "unlinkat": true, "rmdir": true}

// makes are calls that create or remove the last path that they name.
var makes = map[string]bool{"mkdir": true, "mkdirat": true, "mknod": true, "mknodat": true, "link": true, "linkat": true, "symlink": true, "symlinkat": true,
	"unlink": true, "unlinkat": true, "rmdir": true, "truncate": true}

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
