package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// The assembler takes files in, for .incbin and .include, and no dependency file tells of it. Which files is seen in preprocessed text,
// where macros are expanded and what the assembler gets stands in string literals. A command that leaves no such text is asked for it,
// and only if some file that it read has the directive with anything but a name behind it. A name that cannot be seen there either,
// since the assembler's own macros make it, may be that of any file: then the command runs each time.

// taken are the files that the assembler takes in for a text.
type taken struct {
	names   []string // by .incbin
	texts   []string // by .include: assembler source, which may take others in
	unknown bool     // one whose name does not follow
}

// takenBy finds what a text has the assembler take in.
func takenBy(text []byte) (t taken) {
	for _, d := range []struct {
		word string
		list *[]string
	}{{".incbin", &t.names}, {".include", &t.texts}} {
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(d.word))
			if i < 0 {
				break
			}
			begin := at + i
			at = begin + len(d.word)
			if begin > 0 && isWord(text[begin-1]) && !escaped(text[:begin]) || at < len(text) && isWord(text[at]) || isCode(text[at:]) {
				continue
			}
			name := nameAfter(text[at:])
			if name == "" {
				t.unknown = true
			} else if !slices.Contains(*d.list, name) {
				*d.list = append(*d.list, name)
			}
		}
	}
	return t
}

// escaped reports that a text ends with an escape of a string literal: "\n.incbin".
func escaped(text []byte) bool {
	return len(text) > 1 && text[len(text)-2] == '\\'
}

// isCode tells a member of that name from a directive: x.include(y), {.include = y}.
func isCode(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) > 0 && bytes.IndexByte([]byte("(=.,;)[}-"), text[0]) >= 0
}

// nameAfter is the name behind a directive of the assembler: "x" in assembler source and raw string literals, \"x\" in others, which may end and
// begin anew anywhere. "" is one that is not to be seen.
func nameAfter(text []byte) string {
	text, raw, ok := openName(text)
	if !ok {
		return ""
	}
	var name []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return ""
		case raw && c == '"', !raw && bytes.HasPrefix(text[i:], []byte(`\"`)):
			return string(name)
		case c == '\\' || c == '%': // an argument of a macro of the assembler, or of the statement
			return ""
		case c == '"':
			if text = reopened(text[i+1:]); text == nil {
				return ""
			}
			i = -1
		default:
			name = append(name, c)
		}
	}
	return ""
}

// openName finds the quotation mark before the name. raw says that it is not escaped.
func openName(text []byte) (rest []byte, raw, ok bool) {
	for {
		text = bytes.TrimLeft(text, " \t")
		switch {
		case bytes.HasPrefix(text, []byte(`\"`)):
			return text[2:], false, true
		case bytes.HasPrefix(text, []byte(`\t`)):
			text = text[2:]
		case bytes.HasPrefix(text, []byte(`"`)):
			again := reopened(text[1:])
			if again == nil {
				return text[1:], true, true
			}
			text = again
		default:
			return nil, false, false
		}
	}
}

// reopened is what follows the beginning of the next string literal, where nothing but blanks and line markers is before it; else nil.
func reopened(text []byte) []byte {
	for {
		text = bytes.TrimLeft(text, " \t\n")
		if !bytes.HasPrefix(text, []byte("# ")) {
			break
		}
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	if len(text) == 0 || text[0] != '"' {
		return nil
	}
	return text[1:]
}

// assemblerDirs are the folders that the assembler searches: gcc hands -I on to it.
func assemblerDirs(a *graph.Action) []string {
	dirs := append([]string{"."}, a.SearchDirs...)
	for i, arg := range a.Argv {
		for _, part := range strings.Split(strings.TrimPrefix(arg, "-Wa,"), ",") {
			if d, ok := strings.CutPrefix(part, "-I"); ok && d != "" {
				dirs = append(dirs, d)
			} else if ok && i+1 < len(a.Argv) {
				dirs = append(dirs, a.Argv[i+1])
			}
		}
	}
	return compact(dirs)
}

// allTaken follows .include. files are all that the assembler takes in, and names what it looked for.
func (r *Runner) allTaken(a *graph.Action, t taken) (files []cache.FileDigest, names []string, unknown bool) {
	dirs := assemblerDirs(a)
	done := map[string]bool{}
	unknown = t.unknown
	for todo := []taken{t}; len(todo) > 0; todo = todo[1:] {
		for i, list := range [2][]string{todo[0].names, todo[0].texts} {
			for _, name := range list {
				names = append(names, name)
				p, digest, ok := r.firstOf(dirs, name)
				if !ok || done[p] {
					unknown = unknown || !ok
					continue
				}
				done[p] = true
				files = append(files, cache.FileDigest{Path: p, Digest: digest})
				if text, err := regular.Append(nil, r.abs(p)); i == 1 && err == nil {
					next := takenBy(text)
					todo, unknown = append(todo, next), unknown || next.unknown
				}
			}
		}
	}
	return files, names, unknown
}

// firstOf is the file that a name means in the first of some folders that has it.
func (r *Runner) firstOf(dirs []string, name string) (file string, d cache.Digest, ok bool) {
	for _, dir := range dirs {
		p := name
		if !path.IsAbs(name) {
			p = path.Join(dir, name)
		}
		p = r.name(p)
		if d, err := r.Files.Digest(p); err == nil {
			return p, d, true
		}
	}
	return "", d, false
}

// takenIn are comments for the end of a text that say what the assembler will take in for it, with its content: no other
// action's key would tell of it. A file that is not found, or whose name is not to be seen, may be any.
func (r *Runner) takenIn(a *graph.Action, text []byte) (comments []byte, files []cache.FileDigest) {
	t := takenBy(text)
	if len(t.names)+len(t.texts) == 0 && !t.unknown {
		return nil, nil
	}
	files, _, unknown := r.allTaken(a, t)
	for _, f := range files {
		comments = fmt.Appendf(comments, "\n// %s %s", f.Path, f.Digest)
	}
	if unknown {
		files = append(files, never("the assembler takes in a file by a name that cannot be seen"))
	}
	return append(comments, '\n'), files
}

// stillTaken reports that what the assembler took in for the host code of nvcc is what the key of a says.
func (r *Runner) stillTaken(a *graph.Action, start cache.Moment) bool {
	for _, in := range a.Inputs {
		maker := r.maker(in)
		if a.Kind != graph.HostPart || maker == nil || maker.Kind != graph.Cudafe {
			continue
		}
		rec := r.Journal.Last(maker.Outputs[0])
		if rec == nil {
			return false
		}
		for _, f := range rec.Discovered {
			if !isCondition(f.Path) && !r.Files.Unchanged(f.Path, f.Digest, start) {
				return false
			}
		}
	}
	return true
}

// expanded is the preprocessed text of a command that compiles in one go; ok is false if it cannot be had.
func (r *Runner) expanded(ctx context.Context, a *graph.Action, dir scratch) (text []byte, ok bool) {
	argvs, source := [][]string{a.Argv}, a.Inputs[0]
	if isNVCC(a) {
		var err error
		if argvs, err = nvcc.Preprocesses(r.answer(ctx, a, dryRun(a))); err != nil {
			return nil, false
		}
		source = nvcc.AskSource
	}
	file := dir.file("expanded")
	defer os.Remove(file)
	for _, argv := range argvs {
		argv = host.PreprocessOnly(argv, source, a.Inputs[0], file)
		out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: append(slices.Clone(r.Env), a.Env...)})
		if err != nil || out.ExitCode != 0 {
			return nil, false
		}
		if text, err = regular.Append(text, file); err != nil {
			return nil, false
		}
	}
	return text, true
}
