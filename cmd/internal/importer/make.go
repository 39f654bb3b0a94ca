package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A Makefile is not interpreted: make prints the commands of its default goal (make -n), and these
// are read as those of a compile_commands.json, with the links and archives that make also knows.
// make -n runs no recipe, but it does run $(shell ...), recipe lines with + or $(MAKE), and the
// rules of included files.

// makeReader turns commands into targets.
type makeReader struct {
	*Build
	dir     string            // where the current command runs
	at      string            // the rule that it is from: Makefile:12; "" before the first
	objects map[string]*Group // by absolute path; an empty group for a device link's
	linked  map[string]bool   // objects in some target
	files   map[string]*Target
	others  map[string]bool // programs whose commands are not read
}

var (
	enterRE    = pattern(`^\S+?(?:\[\d+\])?: (Entering|Leaving) directory '(.*)'$`)
	ruleRE     = pattern(`^(.+):(\d+): (?:update )?target '`)
	compilerRE = pattern(`^(?:nvcc(?:-[\d.]+)?|(?:[\w.]+-)*(?:gcc|g\+\+|clang|clang\+\+|icpx?)(?:-[\d.]+)?|cc|c\+\+|c99)$`)
	archiverRE = pattern(`^(?:[\w.]+-)*ar$`)
)

// harmless lists programs whose work a manifest does not need.
var harmless = strings.Fields(`mkdir echo printf rm touch true : test [ cd make gmake ranlib strip
	exit set export date uname pwd ls cat tee which`)

// readMake reads what make would run for the default goal of a folder's Makefile. It returns nil if
// that compiles nothing.
func readMake(dir, makefile string, m Machine) (*Build, error) {
	cmd := exec.Command("make", "-n", "-B", "-k", "-w", "--trace", "-o", makefile, "-f", makefile)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C") // the last value counts
	var problems bytes.Buffer
	cmd.Stderr = &problems
	cmd.WaitDelay = time.Second // a process that make started may hold its output
	out, err := cmd.Output()
	if cmd.ProcessState == nil { // it was not started
		return nil, err
	}
	r := newMakeReader(dir, m)
	b := r.Build
	b.From = makefile + " by make -n"
	r.output(string(out))
	if err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		fatal := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "*** ") })
		err = fmt.Errorf("%w: %s", err, lines[max(fatal, 0)])
		b.note("", "what make -n does not reach: %v", err)
	}
	if len(r.objects)+len(b.Targets) == 0 {
		return nil, err
	}
	r.rest()
	if _, err := exec.LookPath(b.NVCC); err != nil {
		b.NVCC = m.NVCC
	}
	return b.finish()
}

func newMakeReader(dir string, m Machine) *makeReader {
	b := &Build{Root: dir, NVCC: m.NVCC, made: map[string]string{}, implicit: map[string]bool{},
		searched: map[string]bool{}}
	for _, d := range m.LibDirs {
		b.implicit[d], b.searched[d] = true, true
	}
	return &makeReader{Build: b, dir: dir, objects: map[string]*Group{}, linked: map[string]bool{},
		files: map[string]*Target{}, others: map[string]bool{}}
}

// output reads what make prints: the directories, rules and commands.
func (r *makeReader) output(out string) {
	dirs := []string{r.dir}
	joined := ""
	for line := range strings.Lines(out) {
		line = joined + strings.TrimRight(line, "\r\n")
		joined = ""
		if more, ok := strings.CutSuffix(line, "\\"); ok {
			joined = more + " "
			continue
		}
		if m := enterRE().FindStringSubmatch(line); m != nil && m[1] == "Entering" {
			dirs = append(dirs, m[2])
			r.at = "" // what $(info) prints comes before the first rule
			continue
		} else if m != nil {
			dirs = dirs[:max(len(dirs)-1, 1)]
			continue
		}
		r.dir = dirs[len(dirs)-1]
		if m := ruleRE().FindStringSubmatch(line); m != nil {
			r.at = r.rel(r.dir, m[1]) + ":" + m[2]
			continue
		}
		for _, text := range shellCommands(line) {
			r.command(text)
		}
	}
}

// shellCommands splits a line at the shell's operators, and removes redirections.
func shellCommands(line string) (commands []string) {
	var text strings.Builder
	var quote byte
	end := func() {
		commands = append(commands, text.String())
		text.Reset()
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(line):
			text.WriteString(line[i : i+2])
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
			text.WriteByte(c)
		case c == '"' || c == '\'' || c == '`':
			quote = c
			text.WriteByte(c)
		case strings.IndexByte(";|&\n", c) >= 0:
			end()
		case c == '(' || c == ')':
			end()
		case c == '>' || c == '<':
			before := strings.TrimRight(text.String(), "0123456789")
			text.Reset()
			text.WriteString(before)
			for i+1 < len(line) && strings.IndexByte("<>& \t", line[i+1]) >= 0 {
				i++
			}
			for i+1 < len(line) && strings.IndexByte(" \t;|&<>()", line[i+1]) < 0 {
				i++
			}
		default:
			text.WriteByte(c)
		}
	}
	end()
	return commands
}

// command reads one simple command.
func (r *makeReader) command(text string) {
	words, err := toolchain.ShellWords(strings.TrimSpace(text), nil)
	if err != nil {
		for _, w := range strings.Fields(text) {
			if compilerRE().MatchString(path.Base(w)) {
				r.note("", "%s: %q: %v", r.at, strings.TrimSpace(text), err)
				return
			}
		}
		return
	}
	words = withoutLaunchers(words)
	if len(words) == 0 || words[0] == "" {
		return
	}
	switch program := path.Base(words[0]); {
	case program == "cd" && len(words) == 2:
		r.dir = r.abs(words[1])
	case compilerRE().MatchString(program):
		r.compiler(words)
	case archiverRE().MatchString(program) && len(words) > 3:
		if strings.ContainsAny(words[1], "rq") {
			r.add(&Target{Kind: "library"}, words[2], words[3:])
		}
	case r.at != "" && !slices.Contains(harmless, program):
		r.others[program] = true
	}
}

// withoutLaunchers removes what may stand before a command: keywords of the shell, assignments, and
// the names of compiler caches.
func withoutLaunchers(words []string) []string {
	for len(words) > 0 {
		_, _, assignment := toolchain.Assignment(words[0])
		if !assignment && !slices.Contains([]string{"if", "then", "else", "do", "!", "{", "time", "env",
			"ccache", "sccache", "kbuild-cc"}, path.Base(words[0])) {
			break
		}
		words = words[1:]
	}
	return words
}

// noCompiles lists options of commands that make no object; compiles those that make no program.
var (
	noCompiles = strings.Fields("-E -M -MM -S -preprocess -version -V -v -dumpversion")
	compiles   = strings.Fields("-c -compile -dc -device-c -dw -device-w -ptx -cubin -fatbin")
)

func (r *makeReader) abs(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(r.dir, name)
}

// compiler reads a command of a compiler: compiles, a link, an archive, or compiles and a link.
func (r *makeReader) compiler(words []string) {
	isNVCC := strings.HasPrefix(path.Base(words[0]), "nvcc")
	options := splitFlags(map[bool]string{true: "nvcc", false: "host"}[isNVCC], words[1:])
	var sources, inputs, compile []string
	var link [][]string
	output, stage, cudart := "", "link", "static"
	shared, archive := false, false
	for _, o := range options {
		name, value, _ := strings.Cut(strings.Join(o, "="), "=")
		switch name = "-" + strings.TrimLeft(name, "-"); {
		case o[0] == "":
		case !strings.HasPrefix(o[0], "-") && manifest.LanguageOf(o[0]) != "":
			sources = append(sources, o[0])
		case !strings.HasPrefix(o[0], "-"):
			inputs = append(inputs, o[0])
			link = append(link, o)
		case name == "-o" || name == "-output-file":
			output = value
		case slices.Contains(noCompiles, name):
			return
		case slices.Contains(compiles, name):
			stage = "compile"
			compile = append(compile, o...)
		case name == "-dlink" || name == "-device-link":
			stage = "device link"
		case name == "-shared":
			shared = true
		case name == "-lib" && isNVCC:
			archive = true
		case isNVCC && name == "-library":
			link = append(link, []string{"-l" + value})
		case isNVCC && name == "-library-path":
			link = append(link, []string{"-L" + value})
		case isNVCC && (name == "-Xlinker" || name == "-linker-options"):
			for _, w := range strings.Split(value, ",") {
				link = append(link, []string{"-Xlinker", w})
			}
		case isNVCC && name == "-cudart":
			cudart = value
		case isLinkOption(o[0]) && o[0] != "-pthread":
			link = append(link, o)
		case isNVCC && (name == "-Xcompiler" || name == "-compiler-options") && len(sources) == 0:
			compile = append(compile, o...)
			for _, w := range strings.Split(value, ",") {
				link = append(link, []string{w})
			}
		default:
			compile = append(compile, o...)
			if !isNVCC {
				link = append(link, o)
			}
		}
	}
	if stage == "device link" {
		r.objects[r.abs(output)] = &Group{}
		return
	}
	var own []*Group
	for _, source := range sources {
		g, err := r.compile(r.rel(r.dir, source), words[0], compile, r.dir, r.abs(source))
		if err != nil {
			r.note("", "%s: %s: %v", r.at, r.rel(r.dir, source), err)
			continue
		}
		g.Sources = []string{r.rel(r.dir, source)}
		own = append(own, g)
		object := output
		if object == "" || len(sources) > 1 {
			object = strings.TrimSuffix(path.Base(source), path.Ext(source)) + ".o"
		}
		if g.Emit != "" {
			r.add(&Target{Kind: "module", Emit: g.Emit, Groups: []*Group{g}}, cmp.Or(output, object), nil)
		} else if stage == "compile" {
			r.objects[r.abs(object)] = g
		}
	}
	if stage == "compile" || len(own)+len(inputs) == 0 {
		return
	}
	t := &Target{Kind: "executable", Groups: own}
	switch {
	case archive:
		t.Kind, link = "library", nil
	case shared:
		t.Kind, t.Shared = "library", true
	}
	if output == "" {
		output = "a.out"
	}
	if !r.add(t, output, inputs) {
		return
	}
	l := &linkReader{Build: r.Build, dir: r.dir, to: t}
	if isNVCC {
		l.runtime, l.system = strings.Replace(cudart, "none", "", 1), []string{"rt", "pthread", "dl"}
	}
	var dirs []string
	for _, o := range link {
		if dir, ok := strings.CutPrefix(strings.Join(o, ""), "-L"); ok {
			dirs = append(dirs, dir)
		}
	}
	for _, o := range link {
		switch file := r.library(strings.Join(o, ""), dirs); {
		case file != "":
			l.option("libraries", []string{file})
		case r.objects[r.abs(o[0])] == nil:
			l.option("libraries", o)
		}
	}
	l.end()
}

// library returns the file of the project that -lNAME stands for, or "".
func (r *makeReader) library(option string, dirs []string) string {
	name, ok := strings.CutPrefix(option, "-l")
	if !ok {
		return ""
	}
	for _, dir := range dirs {
		for _, end := range []string{".so", ".a"} {
			file := filepath.Join(r.abs(dir), "lib"+name+end)
			_, err := os.Stat(file)
			if r.made[file] != "" || err == nil && !filepath.IsAbs(r.rel("", file)) {
				return file
			}
		}
	}
	return ""
}

// add adds the target that makes a file of inputs. It reports false if there is one already: then
// an archive gets the inputs.
func (r *makeReader) add(t *Target, output string, inputs []string) bool {
	file := r.abs(output)
	known := r.files[file]
	if known != nil {
		if t = known; t.Kind != "library" || t.Shared {
			return false
		}
	}
	for _, in := range inputs {
		g := r.objects[r.abs(in)]
		if g == nil && t.Kind == "library" && !t.Shared {
			r.note(r.rel(r.dir, output), "%s, which no command compiles", r.rel(r.dir, in))
		}
		if g != nil && len(g.Sources) > 0 {
			r.linked[r.abs(in)] = true
			t.join(g)
		}
	}
	if len(t.Groups) == 0 {
		r.note(r.rel(r.dir, output), "it has no source that a command compiles")
		return false
	}
	if known != nil {
		return true
	}
	stem := path.Base(output)
	switch {
	case t.Kind == "library":
		stem = strings.TrimPrefix(stem, "lib")
		stem, _, _ = strings.Cut(stem, ".")
	case t.Kind == "module":
		stem = strings.TrimSuffix(stem, path.Ext(stem))
	}
	t.From = r.at
	t.Name = plainName(stem)
	named := func(o *Target) bool { // a library may have a program's name
		return o.Name == t.Name && (o.Kind == "executable") == (t.Kind == "executable")
	}
	if slices.ContainsFunc(r.Targets, named) {
		t.Name = plainName(strings.ReplaceAll(r.rel(r.dir, path.Dir(output)), "/", "_") + "_" + stem)
	}
	for n, name := 2, t.Name; slices.ContainsFunc(r.Targets, named); n++ {
		t.Name = fmt.Sprintf("%s_%d", name, n)
	}
	if t.Name != stem && fileNameRE().MatchString(stem) {
		t.OutputName = stem
	}
	r.made[file], r.files[file] = t.Name, t
	r.Targets = append(r.Targets, t)
	return true
}

// join adds the sources of a group to a group with the same options, or to a new one.
func (t *Target) join(g *Group) {
	for _, have := range t.Groups {
		if alike := *g; slices.Equal(have.Sources, g.Sources) {
			return
		} else if alike.Sources = have.Sources; reflect.DeepEqual(&alike, have) {
			for _, s := range g.Sources {
				have.Sources = appendNew(have.Sources, s)
			}
			return
		}
	}
	own := *g
	own.Sources = slices.Clone(g.Sources)
	t.Groups = append(t.Groups, &own)
}

// rest makes libraries of the objects that nothing links, and notes the programs that were not
// read.
func (r *makeReader) rest() {
	for _, object := range slices.Sorted(maps.Keys(r.objects)) {
		if g := *r.objects[object]; len(g.Sources) > 0 && !r.linked[object] {
			r.collect(libraryName(path.Dir(g.Sources[0])), &g, g.Sources[0])
		}
	}
	for _, program := range slices.Sorted(maps.Keys(r.others)) {
		r.note("", "what %s does: write generate blocks for files that it makes", program)
	}
	r.runtimes()
}
