package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// state is all that a user has made: what a build depends on besides the tools.
type state struct {
	files map[string]file
	hcl   map[string]map[string]string
	env   map[string]string
	args  []string
}

// file is one of the project. Its text is what a link names.
type file struct {
	mode fs.FileMode // its kind
	text string
}

// state looks at the project, less its build trees.
func (h *torture) state() state {
	h.t.Helper()
	s := state{map[string]file{}, map[string]map[string]string{}, maps.Clone(h.env), h.args}
	for target, attributes := range h.hcl {
		s.hcl[target] = maps.Clone(attributes)
	}
	err := filepath.WalkDir(h.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(h.dir, name)
		f := file{mode: d.Type()}
		switch {
		case slices.Contains(buildTrees, rel):
			return fs.SkipDir
		case d.Type()&fs.ModeSymlink != 0:
			f.text, err = os.Readlink(name)
		case !d.IsDir():
			var text []byte
			text, err = os.ReadFile(name)
			f.text = string(text)
		}
		s.files[rel] = f
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// copied makes the project in another folder. Links stay links.
func (h *torture) copied(s state, to string) {
	h.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		target, f := filepath.Join(to, name), s.files[name]
		var err error
		switch {
		case f.mode.IsDir():
			err = os.MkdirAll(target, 0o777)
		case f.mode&fs.ModeSymlink != 0:
			err = os.Symlink(f.text, target)
		default:
			err = os.WriteFile(target, []byte(f.text), 0o666)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// key names a state together with the tools.
func (h *torture) key(s state) [sha256.Size]byte {
	env := maps.Clone(s.env)
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return sha256.Sum256(fmt.Appendf(nil, "%#v %#v %#v %#v", s.files, env, s.args, h.tools.versions))
}

// back is what it takes to make the project again what it was when a build last ended well; where
// only is given, of the names in it alone.
func (h *torture) back(only step) (s step) {
	now, then := h.state(), h.well
	add := func(e edit) {
		if only == nil || slices.ContainsFunc(only, func(o edit) bool { return o.name == e.name }) {
			s = append(s, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.files)) {
		if _, ok := then.files[name]; !ok && !now.files[name].mode.IsDir() {
			add(edit{kind: removeEdit, name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(then.files)) {
		f := then.files[name]
		switch {
		case f == now.files[name] || name == "kernels.hcl":
		case f.mode.IsDir():
			add(edit{kind: folderEdit, name: name})
		case f.mode&fs.ModeSymlink != 0:
			add(edit{kind: linkEdit, name: name, text: f.text})
		default:
			add(edit{kind: one(h, writeFileEdit, replaceEdit), name: name, text: f.text})
		}
	}
	for _, target := range slices.Sorted(maps.Keys(now.hcl)) {
		for _, attribute := range slices.Sorted(maps.Keys(merged(now.hcl[target], then.hcl[target]))) {
			if value := then.hcl[target][attribute]; value != now.hcl[target][attribute] {
				add(edit{kind: setEdit, name: target + " " + attribute, text: value})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(merged(now.env, then.env))) {
		if then.env[name] != now.env[name] {
			add(edit{kind: envEdit, name: name, text: then.env[name]})
		}
	}
	if !slices.Equal(now.args, then.args) {
		add(edit{kind: argsEdit, text: strings.Join(then.args, " ")})
	}
	return s
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}
