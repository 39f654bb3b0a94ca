// Package find finds and identifies what is installed: what the finders of all toolchains share,
// and host compilers. Programs are queried, and nothing is guessed from a layout. The package is
// pure but for the interface Host.
//
// A tool's fingerprint covers the content of everything that the tool runs or reads on its own
// account. The names of those files and their dates do not matter; a ptxas replaced under the same
// nvcc does.
package find

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Host is the host environment. It records everything that it is asked for, present or absent:
// facts are valid until one of those observations changes. Paths are absolute.
type Host interface {
	// Stat describes a file or folder. ok is false if it is absent.
	Stat(name string) (f File, ok bool)

	// List returns the names in a folder, or nil if it is absent.
	List(dir string) []string

	// Read returns the content of a file.
	Read(name string) ([]byte, error)

	// Digest returns a digest of the content of a file.
	Digest(name string) (string, error)

	// Libraries returns the shared libraries that a program or a library loads, directly or
	// indirectly, by the requested names. One that is not found is "". The loader searches the
	// folders first before those of LD_LIBRARY_PATH.
	Libraries(program string, first ...string) map[string]string

	// Run runs programs in a new private folder, one after the other until one fails. It runs equal
	// commands once.
	Run(Command) Result
}

// File describes a file or folder.
type File struct {
	Real    string // its path after links are resolved
	Program bool   // an executable file
	Script  bool   // a program that starts with #!
}

// Command is a command to run, or several in one folder.
type Command struct {
	Argv, Env []string
	Then      [][]string        // further commands
	Files     map[string]string // inputs: contents by name
	Links     map[string]string // inputs: links, with their targets, by name
	Outputs   []string          // names of files to return
	Stdout    bool              // the standard error is not wanted
}

// Result is the result of a command. The name of its folder is removed from Text.
type Result struct {
	Text  string            // of the last command that ran
	Files map[string]string // contents of those Outputs that exist
	Err   error
	Ran   int // number of commands that ran, with one that failed
}

// Wanted holds the requirements of a manifest on a toolchain.
type Wanted struct {
	Needed    bool                // to compile or link something
	Headers   bool                // those for GPUs of another vendor are needed
	Compiler  string              // by name or path; "" is the default
	Folder    string              // of the toolkit that has the compiler; "" is any
	Version   string              // constraint ">= 11.2, < 13", for messages
	Accepts   manifest.Constraint `json:"-"`
	Missing   string              `json:"-"` // error if Folder has no compiler; "" is a default
	MissingOf string              // the attribute of the toolchain block that names Folder
}

// Finder finds tools in one host environment.
type Finder struct {
	Host
	Project string            // its root; relative names of programs start here
	Env     map[string]string // all variables that facts depend on

	// Names in Env: variables that commands for AMD's GPUs get, and those with options of the
	// programs that nvcc runs.
	ForAMD, PassOptions []string

	// That the manifest or a command names; "" selects one that the toolchain supports.
	HostCompiler string

	// A tool runs programs that are not known: the facts must not be remembered.
	Unknown bool

	// Covers holds the files whose content is in a fingerprint, by fingerprint.
	Covers map[string][]string
}

// Lookup returns the path of a program in PATH, or "". It accepts paths, too.
func (f *Finder) Lookup(name string) string { return f.LookupIn(name, f.Env["PATH"]) }

// LookupIn returns the path of a program in a list of folders, or "".
func (f *Finder) LookupIn(name, list string) string {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(f.Project, name)
		}
		if f.IsProgram(name) {
			return name
		}
		return ""
	}
	for _, dir := range strings.Split(list, ":") {
		if p := path.Join(dir, name); path.IsAbs(dir) && f.IsProgram(p) {
			return p
		}
	}
	return ""
}

// first returns the path of the first of some programs that is in PATH.
func (f *Finder) first(names []string) string {
	for _, n := range names {
		if p := f.Lookup(n); p != "" {
			return p
		}
	}
	return ""
}

func (f *Finder) Exists(name string) bool {
	_, ok := f.Stat(name)
	return ok
}

func (f *Finder) IsProgram(name string) bool {
	file, _ := f.Stat(name)
	return file.Program
}

// Real returns a path after its links are resolved, or "" if it is absent.
func (f *Finder) Real(name string) string {
	file, _ := f.Stat(name)
	return file.Real
}

// RealDir returns the folder of a file after links are resolved, or "" if the file is absent.
func (f *Finder) RealDir(name string) string {
	if real := f.Real(name); real != "" {
		return path.Dir(real)
	}
	return ""
}

// Glob returns the paths that match a pattern below a folder, sorted.
func (f *Finder) Glob(dir, pattern string) (found []string) {
	first, rest, more := strings.Cut(pattern, "/")
	for _, name := range f.List(dir) {
		switch ok, _ := path.Match(first, name); {
		case ok && more:
			found = append(found, f.Glob(path.Join(dir, name), rest)...)
		case ok:
			found = append(found, path.Join(dir, name))
		}
	}
	return found
}

// NewestFirst sorts paths whose names end in versions, such as rocm-6.3.0: 6.10 is newer than 6.3.
func NewestFirst(paths []string) []string {
	version := func(p string) (list []int) {
		_, version, _ := strings.Cut(path.Base(p), "-")
		for _, part := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	slices.SortStableFunc(paths, func(a, b string) int { return slices.Compare(version(b), version(a)) })
	return paths
}

// Answer runs a program and returns its standard output, trimmed.
func (f *Finder) Answer(argv ...string) (string, error) {
	r := f.Run(Command{Argv: argv, Stdout: true})
	return strings.TrimSpace(r.Text), r.Err
}

// Output runs a program and returns its standard output and error.
func (f *Finder) Output(argv ...string) (string, error) {
	r := f.Run(Command{Argv: argv})
	return r.Text, r.Err
}

// Complaint returns the error message of a command, or "" if the command succeeded.
func (r Result) Complaint() string {
	if r.Err == nil {
		return ""
	}
	if text := Complaint(r.Text); text != "" {
		return strings.TrimSpace(text)
	}
	return r.Err.Error()
}

// Complaint returns the line of an error that states the reason: clang prints more after it.
func Complaint(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, "error: ") {
			return line
		}
	}
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// OtherLLVM reports whether a message is about bitcode of another LLVM: "(Producer: 'LLVM15.0.6'
// Reader: 'LLVM 14.0.6')".
func OtherLLVM(printed string) bool {
	return strings.Contains(printed, "Producer: ") && strings.Contains(printed, "Reader: ")
}

// Identify returns a fingerprint: a digest of the content of files under their roles, and of texts.
// An empty path is recorded as absent. A text may be another fingerprint: the toolkit's contains
// that of the host compiler.
func (f *Finder) Identify(parts map[string]string, texts ...string) (string, error) {
	h := sha256.New()
	var covers []string
	for _, role := range slices.Sorted(maps.Keys(parts)) {
		if parts[role] == "" {
			fmt.Fprintf(h, "%s absent\n", role)
			continue
		}
		d, err := f.Digest(parts[role])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %s\n", role, d)
		covers = append(covers, parts[role])
	}
	for _, t := range texts {
		fmt.Fprintf(h, "text %d %s\n", len(t), t)
		covers = append(covers, f.Covers[t]...)
	}
	id := hex.EncodeToString(h.Sum(nil))
	f.Covers[id] = append(f.Covers[id], covers...)
	return id, nil
}

// AddLibraries adds the shared libraries of the parts with the given roles to the parts of a tool.
func (f *Finder) AddLibraries(parts map[string]string, roles []string, first ...string) {
	for _, role := range roles {
		if parts[role] == "" {
			continue
		}
		for name, file := range f.Libraries(parts[role], first...) {
			parts[role+" "+name] = file
		}
	}
}

// AddSystem adds the files from which a clang driver detects the distribution to its parts: its
// links differ between distributions.
func (f *Finder) AddSystem(parts map[string]string) {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release", "/etc/lsb-release",
		"/etc/redhat-release", "/etc/debian_version", "/etc/SuSE-release"} {
		if f.Exists(file) {
			parts[file] = file
		}
	}
}

// IsClang reports whether a compiler is a clang, by its name.
func IsClang(compiler string) bool { return strings.Contains(path.Base(compiler), "clang") }

// Finding is one line of the doctor's report.
type Finding struct {
	Status string // OK, Warns or Fails
	What   string // "" continues the previous finding
	Text   string // what was found, or how to fix it
}

// Values of Finding.Status.
const (
	OK    = "ok"
	Warns = "warning"
	Fails = "fail"
)

func (f Finding) String() string { return fmt.Sprintf("%-7s %-22s %s", f.Status, f.What, f.Text) }

// Check returns the finding about something that has a fault, or was found.
func Check(what, fault, found string) Finding {
	if fault != "" {
		return Finding{Fails, what, fault}
	}
	return Finding{OK, what, found}
}

// Described returns the path and the version of a tool.
func Described(t toolchain.Tool) string {
	if t.Version == "" {
		return t.Path
	}
	return fmt.Sprintf("%s (%s)", t.Path, t.Version)
}
