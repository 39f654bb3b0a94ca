package remote

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	server "github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// packer packs commands and loses them.
type packer struct {
	*Executor
	*request
	err  error
	look func(*request) // is called while the files of the command exist; may be nil
}

func (p *packer) Run(ctx context.Context, c *execute.Command, _ <-chan struct{}) (run.Result, error) {
	if p.request, p.err = p.pack(ctx, c); p.err == nil && p.look != nil {
		p.look(p.request)
	}
	return run.Result{}, execute.ErrLost
}

// pack packs the command of the lab's action.
func (l *lab) pack(look func(*request)) (*request, error) {
	l.t.Helper()
	p := &packer{Executor: l.remote, look: look}
	if res := l.runner(p).Execute(l.t.Context(), l.action, make(chan struct{})); !res.Lost {
		l.t.Errorf("the command was not packed: %v", res.Err)
	}
	return p.request, p.err
}

// newRequest packs a command of cat that reads a file of the project, with more arguments and
// variables. ROOT is the folder of the project.
func newRequest(t *testing.T, env []string, args ...string) (server.Command, *lab, error) {
	t.Helper()
	l := newLab(t, &graph.Action{Kind: graph.PTXAS, Inputs: []string{"in put"}, Outputs: []string{"build/out"},
		Argv: append([]string{"cat", "in put"}, args...), Env: env}, &unsteady{})
	l.remote.Platform, l.remote.Estimates = [][2]string{{"need", "<{memory}>"}}, slow{600 << 20}
	l.execute.KeyEnv = []string{"LD_LIBRARY_PATH=/nowhere", "A=1"}
	for i, arg := range l.action.Argv {
		l.action.Argv[i] = strings.ReplaceAll(arg, "ROOT", l.root)
	}
	l.write("in put", "text\n")
	p, err := l.pack(nil)
	if err != nil {
		return server.Command{}, l, err
	}
	return p.cmd, l, nil
}

// travelled reports whether a command has an input with a remote name.
func travelled(cmd server.Command, name string) bool {
	return slices.ContainsFunc(cmd.Inputs, func(in server.Input) bool { return in.Path == name && in.Size > 0 })
}

// A request has the command's program, its libraries and its loader, and begins with the loader.
// Files of the project keep their names, others are below a folder.
func TestPack(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "lib device.bc")
	if err := os.WriteFile(outside, []byte("bitcode"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd, _, err := newRequest(t, []string{"LD_LIBRARY_PATH=/some/where", "B=2"}, "--with="+outside, "ROOT/in put", "-o", "/not/there/yet")
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

// A command runs locally if kbuild does not know which files it reads.
func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	for text, tt := range map[string]struct{ env, args []string }{
		dir + ": kbuild does not know":    {nil, []string{dir}},
		"-I" + dir + ": kbuild does not":  {nil, []string{"-I" + dir}},
		"-X a,/b: kbuild does not know":   {nil, []string{"-X a,/b"}},
		"CONFIG=" + dir + ": kbuild does": {[]string{"CONFIG=" + dir}, nil},
		"names itself":                    {nil, []string{"--stub_file_name", filepath.Join(dir, "a.stub.c")}},
		"is no regular file":              {nil, []string{os.DevNull}},
	} {
		if _, _, err := newRequest(t, tt.env, tt.args...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", tt.args, err)
		}
	}
}

// A script cannot run remotely: kbuild does not know what it reads.
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
