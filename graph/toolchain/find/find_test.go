package find

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeHost is a host of files by path. A file that starts with #! is a program; one that starts
// with -> is a link. Programs print what answers has for their command lines.
type fakeHost struct {
	files, answers map[string]string
	absent         []string
}

func (h *fakeHost) Stat(name string) (f File, ok bool) {
	text, ok := h.files[name]
	if !ok && len(h.List(name)) == 0 {
		h.absent = append(h.absent, name)
		return f, false
	}
	if to, isLink := strings.CutPrefix(text, "->"); isLink {
		return h.Stat(to)
	}
	program := strings.HasPrefix(text, "#!")
	return File{Real: name, Program: program, Script: program}, true
}

func (h *fakeHost) List(dir string) (names []string) {
	for name := range h.files {
		if rest, below := strings.CutPrefix(name, dir+"/"); below {
			first, _, _ := strings.Cut(rest, "/")
			names = append(names, first)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (h *fakeHost) Read(name string) ([]byte, error) {
	if text, ok := h.files[name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (h *fakeHost) Digest(name string) (string, error) {
	text, err := h.Read(name)
	return string(text), err
}

func (h *fakeHost) Libraries(string, ...string) map[string]string { return nil }

func (h *fakeHost) Run(c Command) Result {
	if text, ok := h.answers[strings.Join(c.Argv, " ")]; ok {
		return Result{Text: text, Ran: 1}
	}
	return Result{Err: errors.New("exit status 1"), Ran: 1}
}

func finderOf(files, answers map[string]string) (*Finder, *fakeHost) {
	h := &fakeHost{files: files, answers: answers}
	return &Finder{Host: h, Env: map[string]string{"PATH": "/a:b:/c"}, Covers: map[string][]string{}}, h
}

func TestLookup(t *testing.T) {
	f, h := finderOf(map[string]string{"/c/gcc": "#!", "/b/gcc": "#!", "/a/text": "no program"}, nil)
	if got := f.Lookup("gcc"); got != "/c/gcc" || !slices.Equal(h.absent, []string{"/a/gcc"}) {
		t.Errorf("%q, absent %q", got, h.absent)
	}
	if got := f.Lookup("text") + f.Lookup("c/gcc"); got != "" {
		t.Errorf("found %q", got)
	}
}

// A compiler that is too new is passed over for the newest that the toolkit supports.
func TestCompilerUpTo(t *testing.T) {
	files := map[string]string{"/c/cc1plus": "compiles"}
	answers := map[string]string{}
	for name, version := range map[string]string{"g++": "12.2.0", "g++-11": "11.3.0", "g++-9": "9.5.0"} {
		files["/c/"+name] = "#!" + name
		answers["/c/"+name+" -dumpfullversion -dumpversion"] = version + "\n"
		answers["/c/"+name+" --version"] = name + "\nCopyright Free Software Foundation"
		answers["/c/"+name+" -print-prog-name=cc1plus"] = "/c/cc1plus\n"
	}
	f, _ := finderOf(files, answers)
	for limit, want := range map[int]string{0: "g++", 12: "g++", 11: "g++-11", 10: "g++-9", 8: ""} {
		tool := f.FindCompilerUpTo(limit, "")
		got := strings.TrimSuffix(path.Base(tool.Path), ".")
		if got != want || want == "" && !strings.Contains(tool.Error, "install g++-8") || want != "" && tool.Family != "gcc" {
			t.Errorf("up to %d: %+v, want %s", limit, tool, want)
		}
	}
	before := f.FindCompiler("g++")
	files["/c/cc1plus"] = "compiles otherwise"
	if after := f.FindCompiler("g++"); after.ID == before.ID || !slices.Contains(f.Covers[after.ID], "/c/cc1plus") {
		t.Errorf("another cc1plus is the same compiler: %+v, %q", after, f.Covers[after.ID])
	}
}

// All programs that a script may call are parts, and those that they call.
func TestFollow(t *testing.T) {
	f, h := finderOf(map[string]string{"/a/outer": "#!/bin/sh\nexec \"$(dirname \"$0\")/../x/middle\" -O2 \"$@\"\n",
		"/x/middle": "#!/bin/sh\nexec gcc.\n", "/c/gcc": "#!"}, nil)
	parts := map[string]string{}
	f.Follow("/a/outer", parts)
	if diff := cmp.Diff(map[string]string{"behind 1 middle": "/x/middle", "behind 2 gcc": "/c/gcc"}, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if !slices.Contains(h.absent, "/a/exec") {
		t.Errorf("a program that may come is not observed: %q", h.absent)
	}
}

func TestNewestFirst(t *testing.T) {
	got := NewestFirst([]string{"rocm-6.3.0", "rocm-7.0.2", "rocm-6.10.1", "rocm-5.7", "rocm-old"})
	if want := "rocm-7.0.2 rocm-6.10.1 rocm-6.3.0 rocm-5.7 rocm-old"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}
