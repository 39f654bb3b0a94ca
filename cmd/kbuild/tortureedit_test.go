package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// edit is one thing that a user does. It says all that it takes to do it again, and can be done
// whatever was done before: what it is for may be missing.
type edit struct {
	kind string
	name string // of a file, a target's attribute, a variable
	text string // its content or value
	n    int
}

// The kinds of edits.
const (
	writeFileEdit = "write"    // in place
	replaceEdit   = "replace"  // by another file of that name
	sneakEdit     = "sneak"    // in place, and the time stays
	removeEdit    = "remove"   // a file, a link, a folder
	linkEdit      = "link"     // a file becomes a link to another
	folderEdit    = "folder"   // a file becomes a folder
	timeEdit      = "time"     // a file's time is set, n hours from now
	setEdit       = "set"      // an attribute of a target; "" takes it out. A target without any is not there
	envEdit       = "env"      // a variable of the environment; "" unsets it
	argsEdit      = "args"     // kbuild has these arguments from now on
	buildEdit     = "build"    // kbuild runs, with these arguments besides
	killEdit      = "kill"     // it runs, and is killed before its nth change of a file
	overtakeEdit  = "overtake" // kbuild is stopped before its nth change, a file is written, and a second kbuild overtakes it or waits
	checkoutEdit  = "checkout" // another checkout builds, with the same cache
	toolEdit      = "tool"     // a program of the toolkit is replaced
	libraryEdit   = "library"  // a library is compiled, without kbuild
)

// String describes the edit to a person who repeats it.
func (e edit) String() string {
	switch e.kind {
	case writeFileEdit, replaceEdit, sneakEdit:
		how := map[string]string{writeFileEdit: "write", replaceEdit: "replace by another file", sneakEdit: "write, and set its time to what it was,"}[e.kind]
		return fmt.Sprintf("%s %s:\n%s", how, e.name, indented(e.text))
	case removeEdit, folderEdit:
		return map[string]string{removeEdit: "rm -rf ", folderEdit: "rm -rf it, then mkdir "}[e.kind] + e.name
	case linkEdit:
		return fmt.Sprintf("ln -sf %s %s", e.text, e.name)
	case timeEdit:
		return fmt.Sprintf("set the time of %s, %d hours from now", e.name, e.n)
	case setEdit:
		target, attribute, _ := strings.Cut(e.name, " ")
		if e.text == "" {
			return fmt.Sprintf("in kernels.hcl take %s out of %s", attribute, target)
		}
		return fmt.Sprintf("in kernels.hcl, %s: %s = %s", target, attribute, e.text)
	case envEdit:
		return fmt.Sprintf("export %s='%s'", e.name, e.text)
	case argsEdit:
		return "from now on: kbuild " + e.text
	case buildEdit:
		return "kbuild " + e.text
	case killEdit:
		return fmt.Sprintf("killed %d kbuild -j1 (its children die with it)", e.n)
	case overtakeEdit:
		return fmt.Sprintf("paused %d kbuild -j1 & when it has paused, start a second kbuild after this, and let the first go on when the second waits or has ended: write %s:\n%s",
			e.n, e.name, indented(e.text))
	case checkoutEdit:
		return "copy the project without build, and kbuild there"
	case libraryEdit:
		how := "g++ -c -fPIC"
		if e.n > 0 {
			how = "nvcc -dc " + strings.Join(prebuiltCodes()[e.n-1], " ")
		}
		return fmt.Sprintf("compile into %s (%s):\n%s", e.name, how, indented(e.text))
	case toolEdit:
		return fmt.Sprintf("replace %s by that of version %s", e.name, e.text)
	}
	panic("BUG: no edit " + e.kind)
}

func indented(text string) string {
	if !utf8.ValidString(text) {
		return fmt.Sprintf("    %d bytes, as they were", len(text))
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
}

// apply does an edit. Errors are for files that are not what they were when it was thought of.
func (h *torture) apply(e edit) {
	h.raced = false
	h.damaged[e.name] = true // which counts for outputs
	name := filepath.Join(h.dir, e.name)
	os.MkdirAll(filepath.Dir(name), 0o777)
	switch e.kind {
	case writeFileEdit:
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			os.RemoveAll(name)
		}
		os.WriteFile(name, []byte(e.text), 0o666)
	case replaceEdit:
		os.RemoveAll(name)
		os.WriteFile(name, []byte(e.text), 0o666)
	case sneakEdit:
		info, err := os.Stat(name)
		os.WriteFile(name, []byte(e.text), 0o666)
		if err == nil {
			os.Chtimes(name, info.ModTime(), info.ModTime())
		}
	case removeEdit:
		os.RemoveAll(name)
	case linkEdit:
		os.RemoveAll(name)
		os.Symlink(e.text, name)
	case folderEdit:
		os.RemoveAll(name)
		os.Mkdir(name, 0o777)
	case timeEdit:
		at := time.Now().Add(time.Duration(e.n) * time.Hour)
		os.Chtimes(name, at, at)
	case setEdit:
		h.set(e.name, e.text)
	default:
		h.run(e)
	}
}

// run does an edit that is none of a file.
func (h *torture) run(e edit) {
	switch e.kind {
	case envEdit:
		h.env[e.name] = e.text
		os.Setenv(e.name, e.text)
	case argsEdit:
		h.args = strings.Fields(e.text)
	case buildEdit:
		h.kbuild(h.dir, strings.Fields(e.text)...)
	case killEdit:
		h.killed(e.n)
	case overtakeEdit:
		h.overtaken(e)
	case checkoutEdit:
		other := filepath.Join(h.base, "checkout")
		h.copied(h.state(), other)
		h.kbuild(other)
		os.RemoveAll(other)
	case libraryEdit:
		h.makeLibrary(e)
	case toolEdit:
		h.tools.link(e.name, e.text)
	default:
		panic("BUG: no edit " + e.kind)
	}
}

// set changes an attribute, and writes the manifest.
func (h *torture) set(name, value string) {
	target, attribute, _ := strings.Cut(name, " ")
	if h.hcl[target] == nil {
		h.hcl[target] = map[string]string{}
	}
	h.hcl[target][attribute] = value
	if value == "" {
		delete(h.hcl[target], attribute)
	}
	os.WriteFile(filepath.Join(h.dir, "kernels.hcl"), []byte(h.manifest()), 0o666)
}

// manifest is kernels.hcl. "layout order" turns its blocks round, "layout comment" is a comment in
// it.
func (h *torture) manifest() string {
	var b strings.Builder
	b.WriteString("variable \"n\" {\n  type    = string\n  default = \"1\"\n}\n")
	if c := h.hcl["layout"]["comment"]; c != "" {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	targets := slices.Sorted(maps.Keys(h.hcl))
	if h.hcl["layout"]["order"] != "" {
		slices.Reverse(targets)
	}
	for _, target := range targets {
		kind, name, _ := strings.Cut(target, ".")
		if kind == "layout" || h.hcl[target]["present"] == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s %q {\n", kind, name)
		for _, attribute := range slices.Sorted(maps.Keys(h.hcl[target])) {
			if attribute != "present" && (attribute != "gencode" || h.hcl[target]["code"] == "") {
				is := " ="
				if attribute == "embed" {
					is = ""
				}
				fmt.Fprintf(&b, "  %s%s %s\n", attribute, is, h.there(attribute, h.hcl[target][attribute]))
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// there leaves out of deps what the manifest does not have.
func (h *torture) there(attribute, value string) string {
	if attribute != "deps" {
		return value
	}
	deps := strings.Split(strings.Trim(value, "[]"), ", ")
	return "[" + strings.Join(slices.DeleteFunc(deps, func(d string) bool { return h.hcl[d]["present"] == "" }), ", ") + "]"
}
