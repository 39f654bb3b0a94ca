package remoteexec_test

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// part is what the tests of faults build: compiles and links, and a gate at which compiles run
// elsewhere.
var part = []string{"plain", "early"}

// What fails elsewhere fails here too, and what is said of it is what is said without other
// machines.
func TestFailure(t *testing.T) {
	farm := shared.take(t)
	local := e2e.Unpack(t, "project")
	local.Write("src/half.cu", "__device__ float half_of(float x) {\n#if __CUDA_ARCH__ == 900\n  asm(\"no.such.instruction;\");\n#endif\n  return x / 2;\n}\n")
	local.Write("src/twice.cu", "__device__ float twice(float x) {\n#if __CUDA_ARCH__ == 900\n  return nothing_of_that_name;\n#endif\n  return x + x;\n}\n")
	p := local.Checkout(t, "another", "check out")
	args := []string{"-k", "0", "plain", "solver", "early", "late"}
	here := build(&local, append(args, "-j2")...)
	startUntraced(t, farm, 2, newGates(t, p).passing)
	there := build(p, elsewhere(farm, args...)...)
	for name, text := range map[string]string{"ptxas src/half.cu": "Not a name of any known instruction", "cicc src/twice.cu": `src/twice.cu(3): error: identifier "nothing_of_that_name" is undefined`} {
		if !strings.HasPrefix(here.messages[name], "failed") || !strings.Contains(here.messages[name], text) {
			t.Fatalf("%s here: %q", name, here.messages[name])
		}
	}
	if here.status != e2e.ExitFailed || there.status != e2e.ExitFailed || there.elsewhere == 0 || len(there.warnings) > 0 {
		t.Errorf("%+v, and here %+v", there, here)
	}
	if !maps.Equal(there.messages, here.messages) {
		t.Errorf("it says %q, and here %q", there.messages, here.messages)
	}
}

// faults are a project and what is made of it here.
type faults struct {
	project e2e.Project
	want    map[string][]byte
}

func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{project: e2e.Unpack(t, "project")}
	f.project.Kbuild(append([]string{"-j2"}, part...)...)
	f.want = files(t, filepath.Join(f.project.Dir, "build"))
	return f
}

// build builds with workers that do something wrong, of which do tells with the first command.
// Nothing else is built than here, and there is one warning at most, with text, or none where that
// is "".
func (f *faults) build(t *testing.T, farm *server, text string, do func(*job) (*re.ActionResult, error)) built {
	t.Helper()
	p := f.project.Checkout(t, "another", "check out")
	g := newGate(t, p, "early")
	startUntraced(t, farm, 2, func(j *job) (*re.ActionResult, error) {
		r, err := do(j)
		g.open()
		return r, err
	})
	b := build(p, elsewhere(farm, part...)...)
	if b.status != 0 || len(b.warnings) > 1 || len(b.warnings) == 1 && (text == "" || !strings.Contains(b.warnings[0], text)) {
		t.Errorf("%+v", b)
	}
	same(t, files(t, filepath.Join(p.Dir, "build")), f.want)
	return b
}

// digest changes the digests of all outputs.
func digest(r *re.ActionResult, d *re.Digest) {
	for _, o := range r.OutputFiles {
		o.Digest = d
	}
}

// Workers that fail make no build fail, and none wrong.
func TestWorkers(t *testing.T) {
	f := newFaults(t)
	spoil := func(to func(j *job, r *re.ActionResult)) func(*job) (*re.ActionResult, error) {
		return func(j *job) (*re.ActionResult, error) {
			r, err := j.Run()
			if err == nil {
				to(j, r)
			}
			return r, err
		}
	}
	var turn atomic.Int64
	wrong := []func(*re.ActionResult){ // one after the other: after three that are lost in a row none follows
		func(r *re.ActionResult) { r.OutputFiles = nil },
		func(r *re.ActionResult) { digest(r, &re.Digest{Hash: strings.Repeat("0", 64), SizeBytes: 1 << 10}) }, // the server does not have it
		func(r *re.ActionResult) { digest(r, &re.Digest{Hash: "../../etc/passwd", SizeBytes: -1}) },
	}
	tests := []struct {
		name, warning string
		do            func(*job) (*re.ActionResult, error)
	}{
		{"all commands fail", "running commands by", func(*job) (*re.ActionResult, error) {
			return &re.ActionResult{ExitCode: 1, StderrRaw: []byte("this is no computer\n")}, nil
		}},
		{"results that cannot be", "running commands by", spoil(func(_ *job, r *re.ActionResult) {
			wrong[(turn.Add(1)-1)%int64(len(wrong))](r)
		})},
		{"both outputs say something", "running commands by", spoil(func(_ *job, r *re.ActionResult) {
			r.StdoutRaw, r.StderrRaw, r.StderrDigest = []byte("one\n"), []byte("two\n"), nil
		})},
		{"they die", "", func(*job) (*re.ActionResult, error) { return nil, errDead }},
		{"there is none", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			farm := shared.take(t)
			if tt.do == nil {
				p := f.project.Checkout(t, "another", "check out")
				if b := build(p, elsewhere(farm, part...)...); b.status != 0 || b.elsewhere > 0 || len(b.warnings) > 0 {
					t.Errorf("%+v", b)
				}
				same(t, files(t, filepath.Join(p.Dir, "build")), f.want)
				return
			}
			if b := f.build(t, farm, tt.warning, tt.do); b.elsewhere > 0 {
				t.Errorf("%d actions used that", b.elsewhere)
			}
		})
	}
}

// A server that is killed, or stops, while commands run holds nobody up. One that only keeps a
// cache is used as that.
func TestServers(t *testing.T) {
	f := newFaults(t)
	f.project.Env = append(f.project.Env, "KBUILD_REMOTE_PATIENCE=")
	for name, fault := range map[string]func(*testing.T, *server){
		"killed": func(_ *testing.T, farm *server) { farm.Kill() },
		"stops":  func(t *testing.T, farm *server) { farm.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			farm := shared.take(t)
			if name == "killed" { // which others cannot use
				farm = startServers(t, 1)[0]
			}
			f.build(t, farm, farm.Address, func(*job) (*re.ActionResult, error) {
				fault(t, farm)
				return nil, errDead
			})
		})
	}
	t.Run("keeps a cache", func(t *testing.T) {
		farm := &server{Address: shared.take(t).Cache}
		p := f.project.Checkout(t, "another", "check out")
		if b := build(p, elsewhere(farm, append(part, "--remote-read-only=false")...)...); b.status != 0 || b.elsewhere > 0 || len(b.warnings) != 1 || !strings.Contains(b.warnings[0], "runs no commands") {
			t.Errorf("%+v", b)
		}
		same(t, files(t, filepath.Join(p.Dir, "build")), f.want)
	})
}

// Who runs workers is believed, as compilers are: what a command is said to have made is taken,
// whatever it is.
func TestTrust(t *testing.T) {
	farm, f := shared.take(t), newFaults(t)
	p := f.project.Checkout(t, "another", "check out")
	g := newGates(t, p)
	lie := []byte("// not what cicc makes\n")
	startUntraced(t, farm, 2, func(j *job) (*re.ActionResult, error) {
		r, err := j.Run()
		if err != nil || tool(j.Command) != "cicc" {
			return r, err
		}
		defer g.early.open()
		for _, o := range r.OutputFiles {
			if strings.HasSuffix(o.Path, ".stub.c") {
				continue
			}
			if o.Digest, err = j.Put(slices.Concat(lie, []byte(".version 7.8\n.target sm_80\n.address_size 64\n"))); err != nil {
				return nil, err
			}
		}
		return r, nil
	})
	b := build(p, elsewhere(farm, append([]string{"-k", "0"}, part...)...)...)
	if b.elsewhere == 0 || len(b.warnings) > 0 {
		t.Errorf("%+v", b)
	}
	if bytes.Equal(files(t, filepath.Join(p.Dir, "build"))["bin/plain"], f.want["bin/plain"]) {
		t.Error("the program is what it would be without the lie")
	}
}
