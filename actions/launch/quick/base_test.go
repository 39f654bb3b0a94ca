package quick

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSpell(t *testing.T) {
	b := Base{Dir: "/a/proj", Cwd: "build"}
	for text, want := range map[string]string{
		"/a/proj/k.cu":                     "@/k.cu",
		"-I/a/proj":                        "-I@",
		"-isystem/a/proj/x y":              "-isystem@/x y",
		"--options=a,/a/proj/b,/a/proj":    "--options=a,@/b,@",
		"-DROOT=\"/a/proj\"":               "-DROOT=\"@\"",
		"/a/project/k.cu /a/proj.old":      "/a/project/k.cu /a/proj.old",
		"‘/a/proj’ (/a/proj:3) </a/proj/>": "‘@’ (@:3) <@/>",
		"x/a/proj/k.cu":                    "!",
		"it is in /a/proj.":                "!",
		"-Dx/a/proj/k.cu":                  "!",
		"\x00":                             "!",
	} {
		got, ok := b.Spell(text)
		if !ok {
			got = "!"
		} else if b.Write(got) != text {
			t.Errorf("%q is written back as %q", text, b.Write(got))
		}
		got = string(replaceMark(got))
		if got != want {
			t.Errorf("%q is spelled %q, want %q", text, got, want)
		}
	}
}

func replaceMark(s string) (out []byte) {
	for _, c := range []byte(s) {
		if c == baseMark[0] {
			c = '@'
		}
		out = append(out, c)
	}
	return out
}

func TestBaseName(t *testing.T) {
	for _, c := range []struct {
		cwd, path, want string
		ok              bool
	}{
		{".", "/a/proj/k.cu", "k.cu", true},
		{".", "/a/proj", ".", true},
		{"build/x", "/a/proj/src/k.cu", "../../src/k.cu", true},
		{"build", "/a/proj", "..", true},
		{"build", "/a/project/x", "/a/project/x", false},
		{"build", "../../x", "../../x", true},
	} {
		if got, ok := (Base{Dir: "/a/proj", Cwd: c.cwd}).Name(c.path); got != c.want || ok != c.ok {
			t.Errorf("%s in %s is %s, %v", c.path, c.cwd, got, ok)
		}
	}
}

func TestFindBase(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/.git", "home/w/super/.git", "home/w/super/sub/.git", "home/w/super/sub/build/x", "tree/sub/CMakeCache.txt", "none", "alone/.git", "a b/.git", "clone/.git/worktrees/x", "worktree"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"home/w/super/.git/config":         "[remote \"origin\"]\n\turl = the/super\n",
		"a b/.git/config":                  "[remote \"origin\"]\n\turl = a/b\n",
		"tree/CMakeCache.txt":              "x:BOOL=ON\nCMAKE_HOME_DIRECTORY:INTERNAL=/the/source\n",
		"clone/.git/config":                "[core]\n\turl = no\n[remote \"up\"]\n\turl = no\n[remote \"origin\"]\n\tfetch = x\n\turl = git@x:y.git\n[branch \"b\"]\n",
		"clone/.git/worktrees/x/commondir": "../..\n",
		"worktree/.git":                    "gitdir: " + root + "/clone/.git/worktrees/x\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"HOME": root + "/home"}
	getenv := func(name string) string { return env[name] }
	for dir, want := range map[string]Base{
		"home/w/super/sub/build/x": {root + "/home/w/super", "sub/build/x", "the/super"},
		"home/w/super":             {root + "/home/w/super", ".", "the/super"},
		"home":                     {},
		"tree/sub":                 {root + "/tree", "sub", "/the/source"},
		"none":                     {},
		"alone":                    {}, // another of that name may be linked into the same program
		"clone":                    {root + "/clone", ".", "git@x:y.git"},
		"worktree":                 {root + "/worktree", ".", "git@x:y.git"},
		"a b":                      {}, // dependency files escape the blank
	} {
		if got := FindBase(filepath.Join(root, dir), getenv); got != want {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
	env["KBUILD_BASE_DIR"] = root + "/home/w"
	if got, want := FindBase(root+"/home/w/super/sub", getenv), (Base{root + "/home/w", "super/sub", "w"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := FindBase(root+"/none", getenv); got != (Base{}) {
		t.Errorf("outside of KBUILD_BASE_DIR: %v", got)
	}
}

func TestLeaves(t *testing.T) {
	b := Base{Dir: "/w/a"}
	for text, want := range map[string]bool{
		"-I/w/a/../common": true, "/w/a/src/../../z.h": true, "-Wa,-I/w/a/..,-I/w/a/inc": true,
		"-I/w/a/..": true, "/w/a/a b/../../z.h": true, "-I/w/a/x:/w/a/../y": true,
		"-I/w/a/src/../inc": false, "/w/a/..z": false, "-I/w/a": false, "-I../common": false,
	} {
		if got := b.Leaves(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if (Base{}).Leaves("/..") {
		t.Error("without a base")
	}
}
