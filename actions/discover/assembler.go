package discover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// The assembler reads files for .incbin and .include, and no dependency file names them.
// Preprocessed text shows which files: macros are expanded, and the assembler's input is in string
// literals. A command that leaves no such text is run again to preprocess. That happens only if
// some file that it read has the directive with anything but a name after it. A name may be
// unobservable even there, since the assembler's own macros can build it. It may then be any file,
// so the command runs each time.
//
// Assembler source is handled in the same way, as the assembler reads it, and more strictly. Text
// that looks like a directive is one there, and macros can build directives that do not look like
// one.

// incbin lists the files that the assembler reads for a text.
type incbin struct {
	names   []string // by .incbin
	sources []string // by .include: assembler source, which may include others
	unknown bool     // some name is unobservable
	text    []byte   // of assembler source, without comments
}

// add appends the files of another text.
func (t *incbin) add(of incbin) {
	t.names, t.sources, t.unknown = append(t.names, of.names...), append(t.sources, of.sources...), t.unknown || of.unknown
}

// incbinsIn returns the files that the assembler reads for the code of a text.
func incbinsIn(text []byte) incbin { return takenIn(text, isCode) }

// takenIn returns the files that .incbin and .include in text name. excluded reports, by the text
// after the name, that a match is not a directive.
func takenIn(text []byte, excluded func(rest []byte) bool) (t incbin) {
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '.')
		if i < 0 {
			return t
		}
		begin := at + i
		at = begin + 1
		list, rest := &t.names, asmDirective(text[at:], "incbin")
		if rest == nil {
			list, rest = &t.sources, asmDirective(text[at:], "include")
		}
		if rest == nil || begin > 0 && isWord(text[begin-1]) && !escaped(text[:begin]) || excluded(rest) {
			continue
		}
		if name := nameAfter(rest); name == "" {
			t.unknown = true
		} else if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
}

// takenBySource returns the files that assembler source includes with .incbin and .include.
func takenBySource(text []byte) incbin {
	text = withoutComments(text)
	t := takenIn(text, func([]byte) bool { return false })
	t.text = text
	return t
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
		if i > 0 && len(text) > 0 && text[0] == '"' {
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

// escaped reports whether a text ends with an escape of a string literal: "\n.incbin".
func escaped(text []byte) bool {
	return len(text) > 1 && text[len(text)-2] == '\\'
}

// isCode reports whether the text follows a member of that name, and not a directive: x.include(y),
// {.include = y}.
func isCode(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) > 0 && bytes.IndexByte([]byte("(=.,;)[}-"), text[0]) >= 0
}

// nameAfter returns the name after an assembler directive: "x" in assembler source and raw string
// literals, \"x\" in other literals. Such a literal may end and begin again anywhere. It returns ""
// if the name is unobservable.
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
		case c == '\\' || c == '%': // an argument of an assembler macro, or of the asm statement
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

// openName finds the quotation mark before the name. raw reports that it is not escaped.
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

// assembled follows .include. files are all files that the assembler reads, and names are those
// that it searches for.
func (d *Discovery) assembled(a *graph.Action, t incbin) (files []cache.FileDigest, names []string, unknown bool) {
	dirs := assemblerDirs(a)
	done := map[string]bool{}
	unknown = t.unknown
	text := t.text
	for todo := []incbin{t}; len(todo) > 0; todo = todo[1:] {
		for i, list := range [2][]string{todo[0].names, todo[0].sources} {
			for _, name := range list {
				names = append(names, name)
				found := d.all(dirs, name)
				unknown = unknown || len(found) == 0
				for _, f := range found {
					if done[f.Path] {
						continue
					}
					done[f.Path] = true
					files = append(files, f)
					if i == 0 {
						continue
					}
					source, err := regular.Read(d.Abs(f.Path))
					next := takenBySource(source)
					text = append(append(text, '\n'), next.text...)
					todo, unknown = append(todo, next), unknown || next.unknown || err != nil
				}
			}
		}
	}
	unknown = unknown || composes(text, len(names) > 0)
	if slices.ContainsFunc(names, d.spells) || len(names) > 0 && slices.ContainsFunc(dirs, d.spells) {
		files = append(files, d.placed())
	}
	if unknown {
		files = append(files, Never("the assembler takes in a file by a name that cannot be seen"))
	}
	return files, names, unknown
}

// IncbinDigests returns comments to append to a text, with the digests of the files that the
// assembler will read for it. Without them no key would depend on those files, which it returns as
// well. A file that is not found, or whose name is unobservable, may be any.
func (d *Discovery) IncbinDigests(a *graph.Action, text []byte) (comments []byte, files []cache.FileDigest) {
	t := incbinsIn(text)
	// The compile of the host code finds the files that cudafe++'s output names.
	if a.Kind.Info().Writes == graph.FormHost || len(t.names)+len(t.sources) == 0 && !t.unknown {
		return nil, nil
	}
	files, _, _ = d.assembled(a, t)
	for _, f := range files {
		if !IsCondition(f.Path) {
			comments = fmt.Appendf(comments, "\n// %s", f.Digest)
		}
	}
	return append(comments, '\n'), files
}

// expanded returns the preprocessed text of a command that compiles in one step; ok is false if the
// compiler does not produce it.
func (d *Discovery) expanded(ctx context.Context, ran Ran) (text []byte, ok bool) {
	a := ran.Action
	argvs, source := [][]string{a.Argv}, a.Inputs[0]
	if isNVCC(a) {
		var err error
		if argvs, err = d.drivers.hostCompilers(ctx, a); err != nil {
			return nil, false
		}
		source = nvcc.QuerySource
	}
	defer os.Remove(ran.Scratch)
	for _, argv := range argvs {
		_, ok := d.Query(ctx, a, host.PreprocessOnly(argv, source, a.Inputs[0], ran.Scratch), false)
		if !ok {
			return nil, false
		}
		var err error
		if text, err = regular.Append(text, ran.Scratch); err != nil {
			return nil, false
		}
	}
	return text, true
}
