package manifest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// somebody is a user that no test runs as.
const somebody = 65534

// place has the owner, the group and the permissions of a path.
type place struct {
	uid, gid int
	mode     fs.FileMode
}

func TestUntrusted(t *testing.T) {
	me := os.Geteuid()
	if me != 0 {
		t.Skip("giving files to another user needs root")
	}
	file, folder := place{0, 0, 0o644}, place{0, 0, 0o755}
	tests := map[string]struct {
		file, folder, start, build place
		env                        map[string]string
		want                       string // part of the summary, "" if the project is trusted
	}{
		"own":                     {file, folder, folder, folder, nil, ""},
		"another user's manifest": {place{somebody, 0, 0o644}, folder, folder, folder, nil, "kernels.hcl belongs to "},
		"another user's folder":   {file, place{somebody, 0, 0o755}, folder, folder, nil, "project belongs to "},
		"a folder on the way":     {file, folder, place{somebody, 0, 0o755}, folder, nil, "start belongs to "},
		"another user's tree":     {file, folder, folder, place{somebody, 0, 0o755}, nil, "build belongs to "},
		"manifest of everybody":   {place{0, 0, 0o666}, folder, folder, folder, nil, "changed by every user"},
		"folder of everybody":     {file, place{0, 0, 0o777}, folder, folder, nil, "project may be changed by every user"},
		"sticky folder":           {file, place{0, 0, 0o777 | fs.ModeSticky}, folder, folder, nil, ""},
		"sticky on the way":       {file, folder, place{0, 0, 0o777 | fs.ModeSticky}, folder, nil, ""},
		"root's group":            {place{0, 0, 0o664}, place{0, 0, 0o775}, folder, folder, nil, ""},
		"a group":                 {place{0, 4321, 0o664}, folder, folder, folder, nil, "changed by the group 4321"},
		"a group's folder":        {file, place{0, 4321, 0o775}, folder, folder, nil, "changed by the group 4321"},
		"sudo": {place{1000, 1000, 0o664}, place{1000, 1000, 0o775}, folder, folder,
			map[string]string{"SUDO_UID": "1000"}, ""},
		"sudo of another": {place{1000, 1000, 0o664}, place{1000, 1000, 0o775}, folder, folder,
			map[string]string{"SUDO_UID": "1001"}, "kernels.hcl belongs to "},
		"allowed":       {place{somebody, 0, 0o666}, folder, folder, folder, map[string]string{EnvSafe: "/x:DIR"}, ""},
		"all allowed":   {place{somebody, 0, 0o666}, folder, folder, folder, map[string]string{EnvSafe: "*"}, ""},
		"above allowed": {place{somebody, 0, 0o666}, folder, folder, folder, map[string]string{EnvSafe: "UP/*"}, ""},
		"others allowed": {place{somebody, 0, 0o644}, folder, folder, folder,
			map[string]string{EnvSafe: "UP:DIR/start:DIR/*:."}, "kernels.hcl belongs to "},
		"by configuration": {place{somebody, 0, 0o644}, folder, folder, folder, map[string]string{"HOME": "UP"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			up := t.TempDir()
			dir := filepath.Join(up, "project")
			config := filepath.Join(up, ".config/kbuild/config.hcl")
			for _, d := range []string{filepath.Dir(config), dir + "/start", dir + "/build"} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{config: `safe_directories = ["` + dir + `"]`, dir + "/kernels.hcl": ""} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for p, is := range map[string]place{"kernels.hcl": tt.file, ".": tt.folder, "start": tt.start, "build": tt.build} {
				p = filepath.Join(dir, p)
				if err := os.Chown(p, is.uid, is.gid); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(p, is.mode); err != nil {
					t.Fatal(err)
				}
			}
			env := func(name string) (string, bool) {
				value, ok := tt.env[name]
				return strings.NewReplacer("DIR", dir, "UP", up).Replace(value), ok
			}
			got := Untrusted(Options{Dir: dir, Below: "start", Env: env})
			if (got == nil) != (tt.want == "") || got != nil && !strings.Contains(got.Summary, tt.want) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

// The files that a manifest is read with are checked, too.
func TestUntrustedFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	for _, theirs := range []string{"kernels.local.hcl", "sub/kernels.hcl", "sub"} {
		t.Run(theirs, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"kernels.hcl": `import "sub/kernels.hcl" {}`, "kernels.local.hcl": "", "sub/kernels.hcl": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, diags := Load(Options{Dir: dir}); diags.HasErrors() {
				t.Fatalf("own files: %v", diags)
			}
			if err := os.Chown(filepath.Join(dir, theirs), somebody, somebody); err != nil {
				t.Fatal(err)
			}
			_, diags := Load(Options{Dir: dir})
			if !diags.HasErrors() || !strings.Contains(diags[0].Summary, filepath.Base(theirs)+" belongs to ") {
				t.Errorf("got %v", diags)
			}
		})
	}
}
