// Package optfile expands option files: @FILE of gcc, clang, the assembler and the linkers,
// --options-file of nvcc, ptxas and nvlink, and option files within them. An expanded option is
// like any other: it is part of keys, and all code that checks options sees it. The package knows
// how these programs split a file into words. It knows no other meaning of options. It does not
// guess: a file that two of them split differently is an error.
package optfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Word is an option and the index of the flag that it comes from.
type Word struct {
	Text string
	From int
}

// Error is the reason why a flag cannot be expanded.
type Error struct {
	From int    // index of the flag
	Say  string // what is wrong
	Help string // what to do
}

func (e *Error) Error() string { return e.Say }

// Files reads option files with Read. If a file does not exist, its option stays unexpanded and the
// program decides.
type Files struct {
	Read func(name string) ([]byte, error)
}

// most limits the nesting depth of option files.
const most = 16

const writeOut = "Write the options themselves."

// GNU expands the flags of a host compiler or of a link.
func (f Files) GNU(flags []string) ([]Word, error) { return f.gnu(given(flags), 0) }

// NVIDIA expands the flags of nvcc, ptxas or nvlink.
func (f Files) NVIDIA(flags []string) ([]Word, error) { return f.nvidia(given(flags), 0) }

func given(flags []string) []Word {
	words := make([]Word, len(flags))
	for i, flag := range flags {
		words[i] = Word{flag, i}
	}
	return words
}

// passes maps gcc's options that pass a list of options to another program to those that pass one.
var passes = map[string]string{"-Wl": "-Xlinker", "-Wa": "-Xassembler", "-Wp": "-Xpreprocessor"}

func (f Files) gnu(words []Word, depth int) (out []Word, err error) {
	for i, w := range words {
		var more []Word
		list, rest, isList := strings.Cut(w.Text, ",")
		switch {
		case strings.HasPrefix(w.Text, "@") && i > 0 && slices.Contains([]string{"-Xlinker", "-Xassembler", "-Xpreprocessor"}, words[i-1].Text):
			more, err = f.passed(words[i-1].Text, w, depth)
			out = out[:len(out)-1] // drop the passing option: passed repeats it before each word
		case strings.HasPrefix(w.Text, "@"):
			more, err = f.read(w, w.Text[1:], splitGNU, f.gnu, depth)
		case isList && passes[list] != "" && strings.Contains(","+rest, ",@"):
			for _, part := range strings.Split(rest, ",") {
				var words []Word
				words, err = f.passed(passes[list], Word{part, w.From}, depth)
				if more = append(more, words...); err != nil {
					break
				}
			}
		case isSpecs(w.Text):
			more, err = []Word{w}, f.checkSpecs(w)
		case strings.HasPrefix(w.Text, "--config"):
			more, err = []Word{w}, f.checkConfig(w)
		default:
			more = []Word{w}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// passed expands an option that pass passes to another program.
func (f Files) passed(pass string, w Word, depth int) (out []Word, err error) {
	inner := []Word{w}
	if strings.HasPrefix(w.Text, "@") {
		if inner, err = f.read(w, w.Text[1:], splitGNU, f.gnu, depth); err != nil {
			return nil, err
		}
	}
	for _, o := range inner {
		out = append(out, Word{pass, w.From}, o)
	}
	return out, nil
}

func isSpecs(option string) bool {
	return strings.HasPrefix(option, "-specs=") || strings.HasPrefix(option, "--specs=") || option == "--specs" || option == "-specs"
}

// checkSpecs requires a specs file that gcc finds at the given path and that includes no other
// file: its content is part of keys.
func (f Files) checkSpecs(w Word) error {
	_, file, ok := strings.Cut(w.Text, "=")
	if !ok || !strings.Contains(file, "/") {
		return &Error{w.From, w.Text + " names no place of a file: gcc looks for it in folders of its own", "Write -specs=./FILE."}
	}
	text, err := f.Read(file)
	switch {
	case err != nil:
		return &Error{w.From, fmt.Sprintf("%s cannot be read: %v", file, err), ""}
	case strings.Contains(string(text), "%include"):
		return &Error{w.From, file + " takes in other files (%include)", "Write their text into it."}
	}
	return nil
}

// Clang checks flags that only clang gets. It does not expand them.
func (f Files) Clang(flags []string) (out []Word, err error) {
	out = given(flags)
	for _, w := range out {
		if strings.HasPrefix(w.Text, "--config") {
			if err := f.checkConfig(w); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// checkConfig requires a configuration file of clang at the given path, like checkSpecs. The file
// is not expanded, because clang warns of unused options only if they are on the command line.
func (f Files) checkConfig(w Word) error {
	name, file, ok := strings.Cut(w.Text, "=")
	if name != "--config" || !ok || !strings.Contains(file, "/") {
		return &Error{w.From, w.Text + " names no place of a file: clang looks for it in folders of its own", "Write --config=./FILE."}
	}
	text, err := f.Read(file)
	if err != nil {
		return &Error{w.From, fmt.Sprintf("%s cannot be read: %v", file, err), ""}
	}
	for _, word := range strings.Fields(string(text)) {
		if strings.HasPrefix(word, "@") || strings.HasPrefix(word, "--config") {
			return &Error{w.From, fmt.Sprintf("%s takes in other files (%s)", file, word), "Write their text into it."}
		}
	}
	return nil
}

// nvidia expands flags of nvcc.
func (f Files) nvidia(words []Word, depth int) (out []Word, err error) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, value, joined := strings.Cut(w.Text, "=")
		forHost := name == "-Xcompiler" || name == "--compiler-options"
		isFile := name == "--options-file" || name == "-optf"
		var more []Word
		switch {
		case !forHost && !isFile && namesFile(w.Text):
			err = &Error{w.From, w.Text + " names a file of options for another program", writeOut}
		case !forHost && strings.HasPrefix(name, "-X") && !joined && i+1 < len(words):
			// -Xptxas OPTION.
			i++
			if more = []Word{w, words[i]}; namesFile(words[i].Text) {
				err = &Error{words[i].From, words[i].Text + " names a file of options for another program", writeOut}
			}
		case !forHost && !isFile:
			more = []Word{w}
		case !joined && i+1 == len(words):
			more = []Word{w}
		default:
			from := w.From
			if !joined {
				i++
				value = words[i].Text
			}
			if forHost {
				more, err = f.forHost(w.Text, joined, value, from, depth)
			} else {
				more, err = f.optionsFiles(value, from, depth)
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func namesFile(option string) bool {
	return strings.Contains(option, "options-file") || strings.Contains(option, "-optf")
}

func (f Files) optionsFiles(list string, from, depth int) (out []Word, err error) {
	for _, name := range strings.Split(list, ",") {
		// Kept if it does not exist: nvcc reports that.
		missing := Word{"--options-file=" + name, from}
		more, err := f.read(missing, name, splitNVIDIA, f.nvidia, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// forHost expands the options that nvcc passes to the host compiler, one by one if there was a
// file.
func (f Files) forHost(option string, joined bool, list string, from, depth int) (out []Word, err error) {
	var host []Word
	for _, o := range SplitCommas(list) {
		host = append(host, Word{o, from})
	}
	written, err := f.gnu(host, depth)
	switch {
	case err != nil:
		return nil, err
	case slices.Equal(host, written) && joined:
		return []Word{{option, from}}, nil
	case slices.Equal(host, written):
		return []Word{{option, from}, {list, from}}, nil
	}
	for _, o := range written {
		out = append(out, Word{"-Xcompiler", from}, Word{strings.ReplaceAll(o.Text, ",", `\,`), from})
	}
	return out, nil
}

// SplitCommas splits at commas that no backslash escapes, as nvcc does.
func SplitCommas(list string) []string {
	const kept = "\x00"
	parts := strings.Split(strings.ReplaceAll(list, `\,`, kept), ",")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], kept, ",")
	}
	return parts
}

// read returns the words of a file, with nested files expanded. If the file does not exist, it
// returns w.
func (f Files) read(w Word, name string, split func(string) ([]string, error), expand func([]Word, int) ([]Word, error), depth int) ([]Word, error) {
	if depth == most {
		return nil, &Error{w.From, name + " and other files of options name each other", writeOut}
	}
	text, err := f.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return []Word{w}, nil
	}
	if err != nil {
		return nil, &Error{w.From, fmt.Sprintf("the file of options %s cannot be read: %v", name, err), writeOut}
	}
	texts, err := split(string(text))
	if err != nil {
		return nil, &Error{w.From, fmt.Sprintf("the file of options %s holds %v", name, err), writeOut}
	}
	words := make([]Word, len(texts))
	for i, text := range texts {
		words[i] = Word{text, w.From}
	}
	return expand(words, depth+1)
}

// control reports characters that gcc and clang interpret differently: as a blank or as part of a
// word.
func control(c byte) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' }

// splitGNU splits like gcc (11, 12), clang (15) and binutils: at blanks outside of quotes, with a
// backslash as escape. It rejects a backslash within quotes or at the end of a line, which newer
// compilers interpret differently.
func splitGNU(text string) (words []string, err error) {
	var word []byte
	inWord, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case control(c) || i == 0 && strings.HasPrefix(text, "\ufeff"):
			return nil, fmt.Errorf("the character %q", c)
		case c == '\\' && (quote != 0 || i+1 == len(text) || text[i+1] == '\n' || text[i+1] == '\r'):
			return nil, errors.New("a backslash within quotes or at the end of a line, which compilers read differently")
		case c == '\\':
			i++
			word, inWord = append(word, text[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = nil, false
		default:
			word, inWord = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, errors.New("an open quote")
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, nil
}

// splitNVIDIA splits like nvcc 11.8, for text that nvcc only splits. It rejects brackets,
// backslashes and other characters that nvcc drops or interprets.
func splitNVIDIA(text string) (words []string, err error) {
	quoted, word, inWord := false, []byte(nil), false
	for i := range len(text) {
		c := text[i]
		switch {
		case control(c) || c >= 0x7f || strings.IndexByte("\\'[]`$", c) >= 0:
			return nil, fmt.Errorf("the character %q, which nvcc reads in a way of its own", c)
		case c == '"':
			quoted, inWord = !quoted, true
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = nil, false
		default:
			word, inWord = append(word, c), true
		}
	}
	if quoted {
		return nil, errors.New("an open quote")
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, nil
}
