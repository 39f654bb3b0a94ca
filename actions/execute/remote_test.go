package execute

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// newRemoteRequest packs a command of cat that reads a file of the project, with more arguments and
// variables.
func newRemoteRequest(t *testing.T, l *lab, env []string, args ...string) (remote.Command, error) {
	t.Helper()
	c := l.lateRunner().Config
	c.Elsewhere, c.Cost, c.Platform = &unsteady{}, func(*graph.Action) time.Duration { return time.Hour }, [][2]string{{"need", "<{memory}>"}}
	c.Memory = func(*graph.Action) int64 { return 600 << 20 }
	c.KeyEnv = []string{"LD_LIBRARY_PATH=/nowhere", "A=1"}
	dir := filepath.Join(l.root, ".kbuild/tmp/x")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"cat", "in put"}, args...)
	a := &graph.Action{Kind: graph.PTXAS, Inputs: []string{"in put"}, Outputs: []string{"build/out"}, Argv: argv, Env: env}
	p, err := New(c).remoteTransport.pack(t.Context(), a, argv, scratch{dir: dir, rel: ".kbuild/tmp/x"})
	if err != nil {
		return remote.Command{}, err
	}
	return p.cmd, nil
}

// travelled reports an input by its name there.
func travelled(cmd remote.Command, name string) bool {
	return slices.ContainsFunc(cmd.Inputs, func(in remote.Input) bool { return in.Path == name && in.Size > 0 })
}

// A command goes with its tool, the tool's libraries and loader, and begins with that. Names of the
// project stay, others are below a folder.
func TestPack(t *testing.T) {
	l := newLab(t, "")
	l.write("in put", "text\n")
	outside := filepath.Join(t.TempDir(), "lib device.bc")
	if err := os.WriteFile(outside, []byte("bitcode"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd, err := newRemoteRequest(t, l, []string{"LD_LIBRARY_PATH=/some/where", "B=2"}, "--with="+outside, filepath.Join(l.root, "in put"), "-o", "/not/there/yet")
	if err != nil {
		t.Fatal(err)
	}
	loader, tool := cmd.Argv[0], cmd.Argv[4]
	want := []string{loader, "--inhibit-cache", "--library-path", awayLib, tool, "in put", "--with=" + awayRoot + outside, "in put", "-o", awayRoot + "/not/there/yet"}
	if !slices.Equal(cmd.Argv, want) || filepath.Dir(loader) != awayLib || !strings.HasPrefix(tool, awayRoot+"/") {
		t.Errorf("argv %q", cmd.Argv)
	}
	for _, name := range []string{loader, tool, awayLib + "/libc.so.6", "in put", awayRoot + outside} {
		if !travelled(cmd, name) {
			t.Errorf("%s does not go along, but %v", name, cmd.Inputs)
		}
	}
	if env := []string{"A=1", "LC_ALL=C", "TZ=UTC", "B=2", "TMPDIR=" + awayTemp}; !slices.Equal(cmd.Env, env) {
		t.Errorf("environment %q, want %q", cmd.Env, env)
	}
	if len(cmd.Platform) != 1 || cmd.Platform[0] != [2]string{"need", "<1073741824>"} {
		t.Errorf("platform %q", cmd.Platform)
	}
}

// What names something of which nobody knows what is read of it stays here.
func TestPackRefuses(t *testing.T) {
	l := newLab(t, "")
	l.write("in put", "text\n")
	dir := t.TempDir()
	for text, tt := range map[string]struct{ env, args []string }{
		"nobody knows what is read in ": {nil, []string{dir}},
		"nobody knows what -I":          {nil, []string{"-I" + dir}},
		"nobody knows what -X a,/b":     {nil, []string{"-X a,/b"}},
		"nobody knows what CONFIG":      {[]string{"CONFIG=" + dir}, nil},
		"names itself":                  {nil, []string{"--stub_file_name", filepath.Join(dir, "a.stub.c")}},
		"is no regular file":            {nil, []string{os.DevNull}},
	} {
		if _, err := newRemoteRequest(t, l, tt.env, tt.args...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", tt.args, err)
		}
	}
	os.Remove(filepath.Join(l.root, "in put"))
	if _, err := newRemoteRequest(t, l, nil); err == nil {
		t.Error("an input that is not there is sent")
	}
}

// A script is no program that can be taken along: nobody knows what it reads.
func TestPackScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if loader, err := loaderOf(script); err == nil {
		t.Errorf("it has the loader %q", loader)
	}
	if loader, err := loaderOf("/bin/sh"); err != nil || !filepath.IsAbs(loader) {
		t.Errorf("%q, %v", loader, err)
	}
}
