// Package strace reads what strace writes of a command: the paths that its processes took content
// from, those that they looked for and did not find, and those that they wrote. It knows nothing of
// actions, and touches no file but the one that strace wrote.
package strace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
)

// Args is the command line that runs argv under strace, which writes to file. Descriptors are shown
// with their paths (-y), since a name may be relative to one. fchdir is not among the calls that
// take a name. With --seccomp-bpf only the calls that are shown stop the processes.
func Args(file string, argv []string) []string {
	return append([]string{"strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", "trace=%file,%process,fchdir", "-e", "signal=none",
		"-o", file, "--"}, argv...)
}

// Check says why commands cannot be run under strace here, as the end of a sentence about it.
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

// Use says what a process did with a path.
type Use int

// What can be done with a path. Links are what readlink gave: where a path leads.
const (
	Read   Use = iota // opened for reading
	Ran               // executed
	Listed            // opened as a folder
	Link              // asked where it leads, and it is a symbolic link
	Looked            // not there
	Wrote             // made, truncated, removed, or the new name of something
)

// Access is one use of a path.
type Access struct {
	Use     Use
	Path    string // absolute, and not cleaned: where "x/.." leads is for the file system to say
	Program string // that used it, as it was started; "" for the command before it was
}

// Parse reads what strace wrote of a command that was started in dir.
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

// parents are the numbers of processes by those of their children. A child may be shown before the
// call that started it has returned, and only then its number is told.
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

// folder is what threads of a process share: where relative names start.
type folder struct{ path string }

type process struct {
	program string
	cwd     *folder
}

type parser struct {
	dir     string
	procs   map[string]*process // by number
	begun   map[string]string   // calls that had not returned when another process did something, by number
	parents map[string]string
	out     []Access
}

// line reads one line: "7 open("x", O_RDONLY) = 3". A call during which others were shown has two:
// "7 vfork( <unfinished ...>" and "7 <... vfork resumed>) = 8".
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

// process is the one with a number. One that was not seen yet is in the folder where its parent is:
// that has not returned from the call that started it.
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

// call notes what a call that has returned did.
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

// started notes the child of a call. Threads share the folder; what was seen of a child before its
// parent returned stays.
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

// use notes what a call did with the paths that it names.
func (p *parser) use(proc *process, c call, names []string) {
	add := func(use Use, name string) { p.out = append(p.out, Access{use, name, proc.program}) }
	switch {
	case c.missed():
		if !removes[c.name] {
			add(Looked, names[0])
		}
	case !c.ok():
		if c.name == "execve" || c.name == "execveat" {
			add(Ran, names[0]) // it was there: not for this machine, say
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

// removes are calls that look for what they remove. What is not there any more, they leave as it
// is.
var removes = map[string]bool{"unlink": true, "unlinkat": true, "rmdir": true}

// makes are the calls that make or remove the last path that they name.
var makes = map[string]bool{"mkdir": true, "mkdirat": true, "mknod": true, "mknodat": true, "link": true, "linkat": true, "symlink": true, "symlinkat": true,
	"unlink": true, "unlinkat": true, "rmdir": true, "truncate": true}
