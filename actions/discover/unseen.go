package discover

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
)

// A comment in a shared header changes what every compile that includes it reads, and nothing of what it sees. The record of a compile of plain C or C++
// has forms of the project's headers besides their contents (pptext.Header), so that such an edit is known for what it is, without a process. It is held to
// be one where all of these are true, and else the compile runs:
//
//   - The options are such that it is known what the compiler makes of comments and lines (host.Sees), and the compiler is no script that may add some.
//   - The compile said nothing: a message shows lines, or names them.
//   - All that the record discovered is as it was, but for headers of the project that have the same form Lines. Or the same form Outline, and then
//     nothing that a changed header has in its text may lead to its line, by any macro of any file that the compile reads; and the macros in which it
//     differs are mentioned nowhere, and cannot be put together of words that are (by ##).
//   - No file asks for its time, or is read by the assembler, or as one with another because of its content (#pragma once).

// form gives the form of a header as a record has it; ok is false if it has none.
func (d *Discovery) form(file string, was cache.Digest) (h *pptext.Header, ok bool) {
	h = d.sources.headers.of(was, func() (*pptext.Header, bool) {
		text, ok := d.sources.readAs(file, was)
		if !ok {
			return nil, false
		}
		defer d.sources.buffers.Put(&text)
		h, _ := pptext.ReadHeader(text)
		return h, true
	})
	return h, h != nil
}

// encoded is a form as a record has it.
func encoded(h *pptext.Header) string {
	var b strings.Builder
	b.Write(h.Lines[:])
	b.Write(h.Outline[:])
	for _, m := range h.Macros {
		fmt.Fprintf(&b, "%s %d %x\n", m.Name, m.At, m.Text)
	}
	return b.String()
}

// Forms are the forms of the headers that a record discovered, where they may be of use.
func (d *Discovery) Forms(a *graph.Action, rec *cache.Record) (forms []cache.FileForm) {
	if rec.Text != "" || d.sight(a) == host.SeesAll {
		return nil
	}
	for _, f := range rec.Discovered {
		if IsCondition(f.Path) || filepath.IsAbs(f.Path) {
			continue
		}
		if h, ok := d.form(f.Path, f.Digest); ok {
			forms = append(forms, cache.FileForm{Path: f.Path, Form: encoded(h)})
		}
	}
	return forms
}

// sight is what the compile a sees.
func (d *Discovery) sight(a *graph.Action) host.Sight {
	if a.Kind != graph.HostCompile || len(a.Outputs) != 1 || len(a.Inputs) == 0 || len(a.Tools) == 0 || a.Intermediate || a.InPlace || a.Work != (graph.Work{}) {
		return host.SeesAll
	}
	if !slices.Contains([]string{".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP"}, path.Ext(a.Inputs[0])) || !d.isDriver(a.Argv[0]) {
		return host.SeesAll
	}
	return host.Sees(d.Families[a.Tools[0]], a.Argv)
}

// driverName matches the names of gcc and clang.
var driverName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([\w.]+-)*(gcc|g\+\+|clang|clang\+\+)(-[\d.]+)?$`) })

// isDriver reports a compiler that is itself a program by such a name: no script, and not ccache.
func (d *Discovery) isDriver(file string) bool {
	return d.sources.programs.of(file, func() (bool, bool) {
		real, err := filepath.EvalSymlinks(file)
		if err != nil || !filepath.IsAbs(file) || !driverName().MatchString(filepath.Base(real)) {
			return false, true
		}
		f, err := os.Open(real)
		if err != nil {
			return false, true
		}
		defer f.Close()
		var magic [4]byte
		_, err = f.Read(magic[:])
		return err == nil && string(magic[:]) == "\x7fELF", true
	})
}

// Unseen is a record as it would be had the command of rec run today, where that is known without running it: what it sees has not changed. Of ask, which
// are macros, the compiler has to say that it does not use them: see UsesNone.
func (d *Discovery) Unseen(a *graph.Action, rec *cache.Record) (today *cache.Record, ask []string, ok bool) {
	sight := d.sight(a)
	if len(rec.Forms) == 0 || sight == host.SeesAll { // of one that said something there are none
		return nil, nil, false
	}
	u := unseen{Discovery: d, a: a, rec: rec, now: *rec}
	u.now.Discovered, u.now.Forms = slices.Clone(rec.Discovered), slices.Clone(rec.Forms)
	if !u.compare() || !u.rest() {
		return nil, nil, false
	}
	if u.moved != nil && (sight != host.SeesCode || !u.sameCode()) {
		return nil, nil, false
	}
	slices.Sort(u.ask)
	return &u.now, u.ask, true
}

// UsesNone reports a preprocessed text, which gcc has written with -dU, of a compile that neither expands nor tests one of some macros.
func UsesNone(text []byte, macros []string) bool {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("#define "))
		if !ok {
			rest, ok = bytes.CutPrefix(line, []byte("#undef "))
		}
		if !ok {
			continue
		}
		n := 0
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		if slices.Contains(macros, string(rest[:n])) {
			return false
		}
	}
	return true
}

// unseen compares what a record discovered with what there is today.
type unseen struct {
	*Discovery
	a       *graph.Action
	rec     *cache.Record
	now     cache.Record
	changed []string                  // headers
	moved   map[string]*pptext.Header // of these, those with code in other lines, as they are now
	macros  map[string]bool           // in which they differ
	ask     []string                  // macros of which it is not known that nobody uses them
}

// compare looks at what was discovered, and fills in what there is now.
func (u *unseen) compare() bool {
	for i, f := range u.rec.Discovered {
		is, err := u.today(u.a, f.Path)
		switch {
		case err != nil:
			return false
		case is == f.Digest:
			continue
		case IsCondition(f.Path):
			return false
		}
		at := slices.IndexFunc(u.rec.Forms, func(form cache.FileForm) bool { return form.Path == f.Path })
		h, ok := u.form(f.Path, is)
		if at < 0 || !ok {
			return false
		}
		was, form := u.rec.Forms[at].Form, encoded(h)
		if !u.same(f.Path, was, form, h) {
			return false
		}
		u.changed = append(u.changed, f.Path)
		u.now.Discovered[i].Digest, u.now.Forms[at].Form = is, form
	}
	return len(u.changed) > 0
}

// same compares the forms of a header, and notes in what it differs.
func (u *unseen) same(file, was, is string, h *pptext.Header) bool {
	const size = sha256.Size
	switch {
	case len(was) < 2*size || was[size:2*size] != is[size:2*size]:
		return len(was) >= 2*size && was[:size] == is[:size]
	case was[:size] == is[:size]:
		return true
	}
	if u.moved == nil {
		u.moved, u.macros = map[string]*pptext.Header{}, map[string]bool{}
	}
	u.moved[file] = h
	before, after := strings.Split(was[2*size:], "\n"), strings.Split(is[2*size:], "\n")
	for _, lists := range [2][2][]string{{before, after}, {after, before}} {
		known := map[string]bool{}
		for _, line := range lists[1] {
			known[line] = true
		}
		for _, line := range lists[0] {
			if !known[line] {
				name, _, _ := strings.Cut(line, " ")
				u.macros[name] = true
			}
		}
	}
	return true
}

// rest looks at what else must be as it was, and at what a header is read for besides its code.
func (u *unseen) rest() bool {
	for _, p := range u.rec.Absent {
		if u.appeared(p) {
			return false
		}
	}
	if u.shadowed(u.rec) != "" || u.CommandTellsTime(u.a) {
		return false
	}
	contents := map[cache.Digest]int{}
	for _, f := range u.now.Discovered {
		contents[f.Digest]++
	}
	for _, f := range u.now.Discovered {
		if files, ok := sameFiles(f.Path); ok && slices.ContainsFunc(files, func(s string) bool { return slices.Contains(u.changed, s) }) {
			return false
		}
		if contents[f.Digest] > 1 && slices.Contains(u.changed, f.Path) {
			return false
		}
		if ext := path.Ext(f.Path); ext == pch || ext == ".pch" || ext == ".pcm" || ext == ".gcm" {
			return false
		}
	}
	for _, f := range ownFiles(u.a, u.now.Discovered) {
		s := u.sources.scan(f)
		if s.clocks != (clocks{}) || s.imports || s.embeds || len(s.incbin.names)+len(s.incbin.sources) > 0 || s.incbin.unknown {
			return false
		}
	}
	return true
}

// sameCode reports that it does not matter that code stands in other lines, and that macros are others.
func (u *unseen) sameCode() bool {
	files := append(slices.Clone(u.a.Inputs), u.Named(u.a)...)
	for _, f := range u.now.Discovered {
		if !IsCondition(f.Path) {
			files = append(files, f.Path)
		}
	}
	m := macroUses{Discovery: u.Discovery, clang: u.Families[u.a.Tools[0]] == "clang"}
	if !m.read(files, u.a.Argv) {
		return false
	}
	for f, h := range u.moved {
		digest, err := u.Digest(f)
		if err != nil || m.asksLine(digest, h) {
			return false
		}
	}
	for name := range u.macros {
		plain := strings.TrimSuffix(name, "(")
		used, joined := m.used(plain, u.moved, u.a.Argv)
		switch {
		case len(u.macros) > maxMacros, used, plain != name && u.macros[plain], joined && m.clang:
			return false
		case joined:
			u.ask = append(u.ask, plain)
		}
	}
	return true
}

// maxMacros is of how many macros it is looked for whether they are used.
const maxMacros = 16

// macroUses knows the macros of the files of a compile.
type macroUses struct {
	*Discovery
	clang bool
	files []string
	uses  []*fileUses // by file
}

// fileUses are the macros that a file defines, by name: the words that they stand for, "##" among them. Where conditions decide, it is all of them.
type fileUses struct {
	digest cache.Digest
	macros map[string][]string
	places bool // it has a word, or something that is not known, by which code asks for its place
	names  bool // or for the name of a function, in which clang has one
}

// read reads files, and the definitions of a command line. ok is false if one asks for its place.
func (m *macroUses) read(files, argv []string) (ok bool) {
	m.files = files
	for _, f := range files {
		digest, err := m.Digest(f)
		if err != nil {
			return false
		}
		uses := m.sources.uses.of(digest, func() (*fileUses, bool) {
			text, ok := m.sources.readAs(f, digest)
			if !ok {
				return &fileUses{places: true}, false
			}
			defer m.sources.buffers.Put(&text)
			uses := usesOf(text)
			uses.digest = digest
			return uses, true
		})
		if uses.places || uses.names && m.clang {
			return false
		}
		m.uses = append(m.uses, uses)
	}
	var text strings.Builder
	for i, arg := range argv {
		if i > 0 && argv[i-1] == "-D" {
			arg = "-D" + arg
		}
		if value, ok := strings.CutPrefix(arg, "-D"); ok {
			fmt.Fprintf(&text, "#define %s\n", strings.Replace(value, "=", " ", 1))
		}
	}
	own := usesOf([]byte(text.String()))
	own.digest = sha256.Sum256([]byte(text.String()))
	m.uses = append(m.uses, own)
	return !own.places
}

// usesOf reads the definitions of a text. What looks like one counts, wherever it stands.
func usesOf(text []byte) *fileUses {
	u := &fileUses{macros: map[string][]string{}, places: bytes.Contains(text, []byte("??=")) || bytes.Contains(text, []byte("??/"))}
	text = splice(text)
	for _, word := range []string{"__builtin_LINE", "__builtin_COLUMN", "__builtin_source_location"} {
		u.places = u.places || hasBesidesConditions(text, word)
	}
	u.names = hasBesidesConditions(text, "__PRETTY_FUNCTION__")
	for at := range wordsIn(text, "define") {
		if !bytes.HasSuffix(text[:at], []byte("define")) {
			continue
		}
		d := definition(directiveBody(text[at:]))
		if d.name == "" {
			continue
		}
		words, _, _ := words(d.body)
		if strings.Contains(d.body, "##") || strings.Contains(d.body, "%:%:") {
			words = append(words, "##")
		}
		if len(words) > 0 {
			u.macros[d.name] = append(u.macros[d.name], words...)
		}
	}
	return u
}

// hasBesidesConditions reports a word that a text has elsewhere than in a plain #if: C++'s <version> asks for __has_builtin(__builtin_source_location).
func hasBesidesConditions(text []byte, word string) bool {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(word))
		if i < 0 {
			return false
		}
		at += i + len(word)
		line := bytes.TrimLeft(text[bytes.LastIndexByte(text[:at], '\n')+1:at], " \t")
		rest, directive := bytes.CutPrefix(line, []byte("#"))
		if rest = bytes.TrimLeft(rest, " \t"); !directive || !bytes.HasPrefix(rest, []byte("if ")) && !bytes.HasPrefix(rest, []byte("elif ")) || bytes.ContainsAny(rest, `"'*`) {
			return true
		}
	}
}

// asksLine reports that something in a header may stand for its line: __LINE__, or a macro behind which it may be. One that makes a word of two may make it.
func (m *macroUses) asksLine(digest cache.Digest, h *pptext.Header) bool {
	if h.Words["__LINE__"] {
		return true
	}
	var next []string
	seen := map[string]bool{}
	expand := func(name string, words []string) {
		if len(words) > 0 {
			seen[name] = true
			next = append(next, words...)
		}
	}
	for _, u := range m.uses {
		both := m.sources.common.of([2]cache.Digest{digest, u.digest}, func() ([]string, bool) {
			var names []string
			for name := range u.macros {
				if h.Words[name] {
					names = append(names, name)
				}
			}
			return names, true
		})
		for _, name := range both {
			expand(name, u.macros[name])
		}
	}
	for word := range h.Words {
		if ofCompiler(word) {
			return true
		}
	}
	for len(next) > 0 {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		switch {
		case name == "##" || name == "__LINE__" || ofCompiler(name):
			return true
		case seen[name]:
			continue
		}
		seen[name] = true
		for _, u := range m.uses {
			next = append(next, u.macros[name]...)
		}
	}
	return false
}

// ofCompiler reports a macro of the compiler's own that makes one word of two: __INT64_C.
func ofCompiler(name string) bool {
	return strings.HasPrefix(name, "__") && strings.HasSuffix(name, "_C")
}

// used reports that a macro may be used somewhere: it is mentioned besides in its definition, in a header that is here as it is now. joined is that there
// are words of which it could be put together.
func (m *macroUses) used(name string, defined map[string]*pptext.Header, argv []string) (used, joined bool) {
	pieces := map[string]bool{}
	for _, w := range []string{"long", "unsigned", "signed", "int", "char", "short", "float", "double", "bool"} {
		pieces[w] = true
	}
	for _, arg := range argv {
		n, found := mentions([]byte(arg), name)
		if n > 0 || strings.Contains(arg, name) {
			return true, false
		}
		for _, p := range found {
			pieces[p] = true
		}
	}
	for i, f := range m.files {
		is := m.sources.mentioned.of(mentionKey{m.uses[i].digest, name}, func() (mention, bool) {
			text, ok := m.sources.readAs(f, m.uses[i].digest)
			if !ok {
				return mention{n: 1 << 30}, false
			}
			defer m.sources.buffers.Put(&text)
			n, found := mentions(splice(text), name)
			return mention{n, found}, true
		})
		own := 0
		if h := defined[f]; h != nil {
			for _, macro := range h.Macros {
				if strings.TrimSuffix(macro.Name, "(") == name {
					own++
				}
			}
		}
		if is.n != own || own > 1 {
			return true, false
		}
		for _, p := range is.pieces {
			pieces[p] = true
		}
	}
	return false, joins(name, pieces)
}

// mentionKey is a macro in a file.
type mentionKey struct {
	file cache.Digest
	name string
}

// mention is how often a file has a word, and the words that it has which are part of that one.
type mention struct {
	n      int
	pieces []string
}

// mentions are how often a text has a word, and the words that it has which are part of that one.
func mentions(text []byte, name string) (n int, pieces []string) {
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		begin := i
		for i < len(text) && isWord(text[i]) {
			i++
		}
		word := text[begin:i]
		switch {
		case len(word) > len(name):
		case string(word) == name:
			n++
		case strings.Contains(name, string(word)) && !slices.Contains(pieces, string(word)):
			pieces = append(pieces, string(word))
		}
	}
	return n, pieces
}

// joins reports that a name can be put together of pieces and of digits. Suffixes of numbers, which compilers put together as well, are pieces.
func joins(name string, pieces map[string]bool) bool {
	reached := make([]bool, len(name)+1)
	reached[0] = true
	for i := range name {
		if !reached[i] {
			continue
		}
		for k := i + 1; k <= len(name); k++ {
			part := name[i:k]
			if pieces[part] || k == i+1 && ('0' <= part[0] && part[0] <= '9' || strings.Contains("ULFfuldDWQxabceBHNnRw", part)) {
				reached[k] = true
			}
		}
	}
	return reached[len(name)]
}
