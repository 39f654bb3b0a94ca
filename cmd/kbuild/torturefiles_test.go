package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// content puts a new content into a file in one of the ways that there are.
func (h *torture) content(name, text string) edit {
	return edit{kind: one(h, writeFileEdit, writeFileEdit, writeFileEdit, replaceEdit, sneakEdit), name: name, text: text}
}

func (h *torture) sources() []string { return h.present("*.cu", "*/*.cu", "*.cpp", "dyn/*.cpp") }

func (h *torture) editSource() (edit, bool) {
	all := h.sources()
	if len(all) == 0 || h.chance(10) {
		name := one(h, "dyn/b.cpp", "dyn/c.cpp")
		if slices.Contains(all, name) {
			return edit{kind: removeEdit, name: name}, true
		}
		return edit{kind: writeFileEdit, name: name, text: h.source(name)}, true
	}
	name := one(h, all...)
	text := h.source(name)
	if was, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && h.chance(40) {
		text = h.changed(string(was))
	}
	return h.content(name, text), true
}

// changed is a small edit of a text: what one pass alone sees, or none.
func (h *torture) changed(text string) string {
	switch h.rng.IntN(5) {
	case 0:
		return "// a comment\n" + text
	case 1:
		return "\n" + text
	case 2:
		return strings.Replace(text, "#include <", "#include  <", 1)
	case 3:
		return text + fmt.Sprintf("// %d\n", h.rng.IntN(10))
	}
	return strings.Replace(text, "return 1;", "return 2;", 1)
}

func (h *torture) editHeader() (edit, bool) {
	name := filepath.Join(one(h, headerDirs...), one(h, headers...))
	there := slices.Contains(h.present("*.h", "*/*.h", "*/*/*.h"), name)
	if there && h.chance(40) && !strings.HasPrefix(name, "inc/") {
		return edit{kind: removeEdit, name: name}, true
	}
	if was, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && h.chance(50) {
		return h.content(name, otherValue(string(was))), true
	}
	return h.content(name, h.header(name)), true
}

// operatorLines are a division, or a comment, between a line that ends in 8 and one that begins
// with -2.
var operatorLines = []string{"/\n", "//\n", "// half\n", "/* half */\n"}

// editComments is an edit of a header that changes comments and no token, or looks like one that
// does: operators and definitions that become comments, definitions that change places or stand in
// two headers.
func (h *torture) editComments() (edit, bool) {
	names := h.present("*.h", "*/*.h", "*/*/*.h")
	if len(names) == 0 {
		return edit{}, false
	}
	name := one(h, names...)
	was, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		return edit{}, false
	}
	lines := strings.SplitAfter(string(was), "\n")
	at := h.rng.IntN(len(lines))
	if i := slices.Index(lines, "-2 };\n") - 1; i >= 0 && h.chance(50) {
		lines[i] = one(h, operatorLines...)
		return h.content(name, strings.Join(lines, "")), true
	}
	bare, comment, _ := strings.Cut(strings.TrimSuffix(lines[at], "\n"), " // ")
	switch h.rng.IntN(8) {
	case 0: // in a comment line, or a line that may become one
		lines[at] = one(h, "/\n", "//\n", "// half\n", "/ 1\n", "/* half */\n")
	case 1:
		lines[at] = bare + fmt.Sprintf(" // %d\n", h.rng.IntN(10))
	case 2:
		lines[at] = bare + "\n"
	case 3:
		lines[at] = one(h, "// ", "/ ") + bare + comment + "\n"
	case 4:
		lines = slices.Insert(lines, at, fmt.Sprintf("#define %s %d\n", one(h, "H0", "H1", "H2", "WORDS_A"), h.rng.IntN(10)))
	case 5:
		next := (at + 1) % len(lines)
		lines[at], lines[next] = lines[next], lines[at]
	case 6:
		lines = slices.Insert(lines, at, one(h, "\n", "// a line\n"))
	default: // a value that goes on behind a line
		lines = append(lines, fmt.Sprintf("\nenum { half_%d = 8\n%s\n-2 };\n", h.rng.IntN(1000), strings.TrimSuffix(one(h, operatorLines...), "\n")))
	}
	return h.content(name, strings.Join(lines, "")), true
}

// editTwin makes a header, or makes it anew, that has the name of another one in some folder.
func (h *torture) editTwin(name string) (edit, bool) {
	at := slices.IndexFunc(headers, func(s string) bool { return strings.HasSuffix("/"+name, "/"+s) })
	if at < 0 {
		return edit{}, false
	}
	twin := filepath.Join(one(h, headerDirs...), headers[at])
	return h.content(twin, h.header(twin)), twin != name
}

// otherValue is a text with another last digit: one byte, which may be the last of all.
func otherValue(text string) string {
	at := strings.LastIndexAny(text, "0123456789")
	if at < 0 {
		return text
	}
	return text[:at] + string('0'+(text[at]-'0'+1)%10) + text[at+1:]
}

// editFile changes what a file is, or its time.
func (h *torture) editFile() (edit, bool) {
	files := append(h.present("*.h", "*/*.h", "*/*/*.h"), h.sources()...)
	if len(files) == 0 {
		return edit{}, false
	}
	name := one(h, files...)
	switch h.rng.IntN(5) {
	case 0:
		other := one(h, files...)
		if filepath.Ext(other) != filepath.Ext(name) || other == name {
			return edit{}, false
		}
		to, _ := filepath.Rel(filepath.Dir(name), other)
		return edit{kind: linkEdit, name: name, text: to}, true
	case 1:
		if !strings.HasSuffix(name, ".h") {
			return edit{}, false
		}
		return edit{kind: folderEdit, name: name}, true
	}
	return edit{kind: timeEdit, name: name, n: one(h, -1000, -1, 0, 1, 1000)}, true
}

// editData changes what generate blocks read and run.
func (h *torture) editData() (edit, bool) {
	switch h.rng.IntN(5) {
	case 3:
		return h.content("cc.opts", one(h, "-DOPT=7\n", "-Ifirst\n", "-Isys -fno-inline\n")), true
	case 0:
		script := one(h, "cat data/in > $1\n", "cat data/in > $1 # comment\n", "cat data/in > $1\necho '#define MORE 1' >> $1\n", "exit 1\n")
		return h.content("tools/gen.sh", script), true
	case 1:
		return edit{kind: setEdit, name: "generate.tables command",
			text: one(h, `["sh", "tools/gen.sh", self.outputs[0]]`, `["cp", "data/in", self.outputs[0]]`)}, true
	case 2:
		return edit{kind: setEdit, name: "generate.tables outputs", text: one(h, `["tables.h"]`, `["h0.h"]`)}, true
	}
	return h.content("data/in", fmt.Sprintf("#define TABLE %d"+one(h, "", "\n"), h.rng.IntN(4))), true
}
