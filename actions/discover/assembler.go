package discover

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// The assembler reads files for .incbin and .include, and no dependency file names them.
//
// A compile whose asm statements name undeclared files by them runs each time. Preprocessed text
// shows it, where macros are expanded: a command that leaves no such text is run again to
// preprocess, if some file that it read has what looks like a directive.
//
// Assembler source is read as the assembler reads it, and its files are inputs. Text that looks
// like a directive is one there, and macros can build directives that do not look like one. If a
// name cannot be read, it may be any file, so that the command runs each time.

// directives yields, for each .incbin and .include in a text, whether it is .include, and the text
// after it. It omits names of members: x.include(y), {.include = y}.
func directives(text []byte) iter.Seq2[bool, []byte] {
	return func(yield func(include bool, rest []byte) bool) {
		for at := 0; ; {
			i := bytes.IndexByte(text[at:], '.')
			if i < 0 {
				return
			}
			begin := at + i
			at = begin + 1
			rest, include := asmDirective(text[at:], "incbin"), false
			if rest == nil {
				rest, include = asmDirective(text[at:], "include"), true
			}
			part := begin > 0 && isWord(text[begin-1]) && !escaped(text[:begin])
			if rest != nil && !part && !yield(include, rest) {
				return
			}
		}
	}
}

// assembles reports whether the code of a text makes the assembler read other files than those that
// .incbin names and that are declared: kbuild's own sources embed artifacts so.
func assembles(text []byte, declared []string) bool {
	for include, rest := range directives(text) {
		name, quoted := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte(`\"`))
		name, _, ends := bytes.Cut(name, []byte(`\"`))
		known := !include && quoted && ends && slices.Contains(declared, string(name))
		if !known && !isCode(rest) {
			return true
		}
	}
	return false
}

// mayAssemble reports whether the code of a text, or of one that macros make with it, may make the
// assembler read files.
func mayAssemble(text []byte) bool {
	return assembles(text, nil) || bytes.Contains(text, []byte("incbin")) ||
		bytes.Contains(text, []byte(`" #`)) && asmGlued().Match(text)
}

// composes reports whether macros may build a directive from pieces. text is a source with all its
// includes. A piece is an argument after a '.' or after the start of a name. It may also be a '.'
// that is an argument, or a word that is not a directive where it is. In the alternate syntax,
// arguments also replace words in file names, if names is set.
func composes(text []byte, names bool) bool {
	return asmMacros().Match(text) &&
		(asmPieces().Match(text) || asmJoins().Match(text) && asmDot().Match(text) || names && asmAlternate().Match(text))
}

var (
	asmMacros    = asmPattern(`\.(?:macro|irpc?|altmacro|mri)\b`)
	asmAlternate = asmPattern(`\.(?:altmacro|mri)\b`)
	asmPieces    = asmPattern(`(?:^|[^\w.$])\.(?:` + asmBegin + `?[\\&]|` + asmBegin + `(?:$|\W))|(?:^|[^\w.$"/-])(?:incbin|include)(?:$|[^\w/.-])`)
	asmJoins     = asmPattern(`\\\w+\\|&`)
	asmGlued     = asmPattern(`\.` + asmBegin + `?"[ \t]*#[ \t]*\w`) // "." #directive
	asmEscape    = asmPattern(`\\(?:.|[0-7]{1,3}|x[0-9a-f]+)$`)
	asmDot       = asmPattern(`(?:^|[\s,"=])\.(?:$|[\s,"])`)
)

// asmBegin matches a proper prefix of incbin or include.
const asmBegin = `(?:i(?:n(?:c(?:b(?:i)?|l(?:u(?:d)?)?)?)?)?)`

func asmPattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)` + text) })
}

// withoutComments removes lines of assembler source that are comments on every machine. If
// quotation marks do not pair up on each line, it removes none: a string may continue there.
func withoutComments(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for rest := text; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line = rest[:i+1]
		}
		if bytes.Count(line, []byte(`"`))%2 != 0 {
			return text
		}
		begin := bytes.TrimLeft(line, " \t")
		hash := bytes.HasPrefix(begin, []byte("#")) || bytes.HasPrefix(begin, []byte("//"))
		switch {
		case hash && !bytes.Contains(line, []byte("*/")):
			rest = rest[len(line):]
		case bytes.HasPrefix(begin, []byte("/*")):
			at := len(line) - len(begin) + 2
			end := bytes.Index(rest[at:], []byte("*/"))
			if end < 0 {
				return append(out, rest...)
			}
			rest = rest[at+end+2:]
		default:
			out, rest = append(out, line...), rest[len(line):]
		}
	}
	return out
}

// assembler returns the language of a's source, as -x names it, if it is assembler; else "".
func assembler(a *graph.Action) string {
	if !a.Kind.Info().CompilesSource() {
		return ""
	}
	for i := len(a.Argv) - 2; i > 0; i-- {
		if a.Argv[i] == "-x" && (a.Argv[i+1] == host.Assembler || a.Argv[i+1] == host.AssemblerWithCPP) {
			return a.Argv[i+1]
		}
	}
	return ""
}

// readsMore reports whether options make the assembler read other files or other directives:
// listings with source lines, option files, and other syntax.
func readsMore(a *graph.Action) bool {
	return slices.ContainsFunc(assemblerWords(a), func(o string) bool {
		list, _, _ := strings.Cut(o, "=")
		return strings.HasPrefix(list, "-a") && (list == "-a" || strings.Contains(list, "h")) || strings.HasPrefix(o, "@") || o == "-M" || strings.HasPrefix(o, "--mri") || strings.HasPrefix(o, "--al")
	})
}

// assemblerWords returns the options for the assembler alone.
func assemblerWords(a *graph.Action) (words []string) {
	for i, arg := range a.Argv {
		if list, ok := strings.CutPrefix(arg, "-Wa,"); ok {
			words = append(words, strings.Split(list, ",")...)
		} else if i > 0 && a.Argv[i-1] == "-Xassembler" {
			words = append(words, arg)
		}
	}
	return words
}

// asmDirective returns the text after the name of a directive, or nil if text does not begin with
// the name. The assembler ignores case, and string literals may split the name.
func asmDirective(text []byte, name string) []byte {
	for i := range len(name) {
		if len(text) > 0 && text[0] == '"' {
			text = reopened(text[1:])
		}
		if len(text) == 0 || text[0]|0x20 != name[i] {
			return nil
		}
		text = text[1:]
	}
	if len(text) > 0 && isWord(text[0]) {
		return nil
	}
	return text[:len(text):len(text)]
}

// escaped reports whether a text ends with an escape of a string literal: "\n.incbin", "\012.incbin".
func escaped(text []byte) bool {
	return asmEscape().Match(text[max(0, len(text)-16):])
}

// isCode reports whether the text follows a member of that name, and not a directive: x.include(y),
// {.include = y}.
func isCode(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) > 0 && bytes.IndexByte([]byte("(=.,;)[}-"), text[0]) >= 0
}

// nameAfter returns the name after a directive of assembler source, or "" if it is unobservable.
func nameAfter(text []byte) string {
	text, quoted := bytes.CutPrefix(bytes.TrimLeft(text, " \t"), []byte(`"`))
	name, _, ends := bytes.Cut(text, []byte(`"`))
	if !quoted || !ends || bytes.ContainsAny(name, "\n\\%") { // perhaps an argument of a macro
		return ""
	}
	return string(name)
}

// reopened returns the text after the start of the next string literal, if only blanks and line
// markers precede it; else nil.
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

// assemblerDirs returns the folders that the assembler searches, perhaps in another order. gcc
// passes -I on to it.
func assemblerDirs(a *graph.Action) []string {
	dirs := append([]string{"."}, a.SearchDirs...)
	for _, words := range [2][]string{a.Argv, assemblerWords(a)} {
		for i, word := range words {
			if d, ok := strings.CutPrefix(word, "-I"); ok && d != "" {
				dirs = append(dirs, d)
			} else if ok && i+1 < len(words) {
				dirs = append(dirs, words[i+1])
			}
		}
	}
	return compact(dirs)
}

// assembled returns the files that the assembler reads for a compile.
func (s *compile) assembled(found []cache.FileDigest) []cache.FileDigest {
	a := s.ran.Action
	if assembler(a) != "" {
		return s.assembledSource(append(paths(found), a.Inputs...))
	}
	if a.Kind.Info().Writes == graph.FormText { // the compile of its text reads them
		return nil
	}
	reads, files := mayAssemble([]byte(strings.Join(a.Argv, "\n"))), sourcesOf(a)
	if !compilesMade(a) {
		files = append(files, paths(found)...)
	}
	for _, f := range files {
		reads = reads || !IsCondition(f) && s.sources.scan(f).assembles
	}
	if reads && s.drivers.known(a) && !compilesMade(a) {
		// text that looks like a directive may not be one
		text, ok := s.expanded(s.ctx, s.ran)
		reads = !ok || assembles(text, a.Inputs)
	}
	if reads || s.stagedAssembles() {
		return []cache.FileDigest{never("the assembler reads files for .incbin or .include of an asm statement")}
	}
	return nil
}

// stagedAssembles reports whether the assembler reads files for a text that was staged into the
// command's folder.
func (s *compile) stagedAssembles() bool {
	if !compilesMade(s.ran.Action) {
		return false
	}
	for _, in := range s.ran.Action.Pass().Staged {
		if in.From == "" {
			continue
		}
		text, err := s.sources.read(path.Join(s.ran.Staged, "in", in.Name))
		if err != nil { // the command ran remotely
			text, err = s.sources.read(in.From)
		}
		if err != nil || assembles(text, s.ran.Action.Inputs) {
			return true
		}
		s.sources.buffers.Put(&text)
	}
	return false
}

// assembledSource returns the files that assembler source includes, after preprocessing for .S,
// except those in have.
func (s *compile) assembledSource(have []string) (files []cache.FileDigest) {
	a := s.ran.Action
	var source []byte
	var err error
	ok := false
	switch {
	case assembler(a) == host.Assembler:
		source, err = regular.Read(s.abs(a.Inputs[0]))
		ok = err == nil
	case s.drivers.known(a):
		source, ok = s.expanded(s.ctx, s.ran)
	}
	unknown, placed, named := !ok || readsMore(a), false, false
	dirs := assemblerDirs(a)
	s.in(dirs)
	var all []byte
	seen, included := map[string]bool{}, map[string]bool{}
	for todo := [][]byte{source}; len(todo) > 0; todo = todo[1:] {
		text := withoutComments(todo[0])
		all = append(append(all, text...), '\n')
		for include, rest := range directives(text) {
			name := nameAfter(rest)
			if name == "" {
				unknown = true
				continue
			}
			named = true
			placed = placed || s.spells(name) || slices.ContainsFunc(dirs, s.spells)
			s.absent(name, "")
			found := s.all(dirs, name)
			unknown = unknown || len(found) == 0
			for _, f := range found {
				if !seen[f.Path] && !slices.Contains(have, f.Path) {
					files = append(files, f)
				}
				seen[f.Path] = true
				if include && !included[f.Path] {
					included[f.Path] = true
					text, err := regular.Read(s.abs(f.Path))
					todo, unknown = append(todo, text), unknown || err != nil
				}
			}
		}
	}
	if placed {
		files = append(files, s.inThisFolder())
	}
	if unknown || composes(all, named) {
		files = append(files, never("the assembler takes in a file by a name that cannot be seen"))
	}
	return files
}

// expanded returns the preprocessed text of a command that compiles in one step; ok is false if the
// compiler does not produce it.
func (d *Discovery) expanded(ctx context.Context, ran Ran) (text []byte, ok bool) {
	a := ran.Action
	argvs, source, err := d.drivers.preprocesses(ctx, a)
	if err != nil {
		return nil, false
	}
	defer os.Remove(ran.Scratch)
	for _, argv := range argvs {
		_, ok := d.Query(ctx, a, host.PreprocessOnly(argv, source, a.Inputs[0], ran.Scratch), false)
		if !ok {
			return nil, false
		}
		if text, err = regular.Append(text, ran.Scratch); err != nil {
			return nil, false
		}
	}
	return text, true
}
