package nvcc_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// keys are those of all actions of a build tree by first output, from its database: what the action
// is told, and what it read.
func (e *example) keys(buildDir string) map[string]string {
	e.T.Helper()
	j, err := tree.Open(filepath.Join(e.Dir, buildDir, ".kbuild/tree.db"))
	if err != nil {
		e.T.Fatal(err)
	}
	defer j.Close()
	out := map[string]string{}
	for rec := range j.All() {
		out[strings.TrimPrefix(rec.Outputs[0].Path, buildDir+"/")] = rec.Command.String() + " " + rec.ID().String()
	}
	return out
}

// changed are the actions whose keys differ, by first output, sorted.
func changed(was, is map[string]string) []string {
	all := maps.Clone(was)
	maps.Copy(all, is)
	maps.DeleteFunc(all, func(output, _ string) bool { return was[output] == is[output] })
	return slices.Sorted(maps.Keys(all))
}

// variation is a way to build the project of testdata/keys.txtar.
type variation struct {
	name    string
	args    []string
	env     []string
	prepare string // for sh, in the copy of the project
	dir     string // to run in, from the copy
}

// build builds a copy of e as v says, in a folder of its own, and gives the keys.
func (v variation) build(t *testing.T, e *example) map[string]string {
	t.Helper()
	f := *e
	f.T, f.Dir = t, filepath.Join(t.TempDir(), "eine Kopie")
	e2e.CopyTree(t, e.Dir, f.Dir)
	f.Run("sh", "-c", v.prepare)
	root := f.Dir
	f.Env, f.Dir = slices.Concat(e.Env, v.env), filepath.Join(root, v.dir)
	f.Run(append([]string{"kbuild"}, v.args...)...)
	f.Dir = root
	return f.keys("build")
}

// What must not change a key: compilers do not see it. Each build is in another folder, with a
// build tree of its own.
var sameKeys = []variation{
	{name: "one at a time, loud", args: []string{"-j1", "-v", "--trace", "trace.json", "--progress", "plain", "--color", "always"}},
	{name: "many at a time, quiet", args: []string{"-j9", "-q", "--mem", "100%", "--progress", "none", "--color", "never"}},
	{name: "JSON, from another folder", args: []string{"--json", "-C", ".."}, dir: "src"},
	{name: "variables in another order", args: []string{"--var", "shift=1", "--var", "scale=2"}},
	{name: "variables in the environment", env: []string{"KBUILD_VAR_shift=1", "KBUILD_VAR_scale=2"}},
	{name: "variables in a file", prepare: `printf 'shift = 1\nscale = 2\n' >kernels.local.hcl`},
	{name: "architectures in another order", args: []string{"--arch", "sm_90,sm_80"}},
	{name: "targets in another order", args: []string{"executable.app", "module.m", "library.s", "library.k", "generate.table"}},
	{name: "one after another", prepare: "kbuild module.m; kbuild library.k; kbuild executable.app"},
	{name: "a later call", prepare: "kbuild; kbuild -n; touch src/*.cu; kbuild why"},
	{name: "after an edit and back", prepare: "cp m.cu m; echo 'int x;' >>m.cu; kbuild; mv m m.cu"},
	{name: "files made in another order", prepare: "for f in c b a; do mv src/$f.cu src/x; cp src/x src/$f.cu; rm src/x; done"},
	{name: "files that nobody asked for", prepare: "touch src/notes.txt README; mkdir inc/more; echo '#error' >inc/more/scale.cuh"},
	{name: "times and modes", prepare: "touch -d 2001-01-01 src/*.cu inc/*; chmod 444 src/*.cu m.cu; umask 077"},
	{name: "comments and layout of the manifest", prepare: `sed -i 's/ = / =   /; s/^module/# a module\n&/' kernels.hcl`},
	{name: "defines and axes in another order", prepare: `sed -i 's/{ SCALE = var.scale, SHIFT = var.shift }/{ SHIFT = var.shift, SCALE = var.scale }/
		/^    type  = /d; s/^    width = .*/&\n    type  = ["int"]/' kernels.hcl`},
	{name: "another cache", prepare: `cp -r "$KBUILD_CACHE_DIR" "../a cache"`, args: []string{"--cache-dir", "../a cache"}},
	{name: "no cache", args: []string{"--no-cache"}},
	{name: "who and where", env: []string{"HOME=/nowhere", "USER=nobody", "LOGNAME=nobody", "PWD=/", "OLDPWD=/tmp", "SHLVL=7", "TERM=dumb", "LANG=de_DE.UTF-8",
		"LC_ALL=C.UTF-8", "TZ=Asia/Tokyo", "TMPDIR=/var/tmp", "HOSTNAME=elsewhere", "COLUMNS=40", "CLICOLOR_FORCE=1", "CUDA_CACHE_PATH=/nowhere",
		"CUDA_VISIBLE_DEVICES=1", "CUDA_LAUNCH_BLOCKING=1", "CUTE_DSL_LOG_LEVEL=10", "WARP_CACHE_PATH=/nowhere"}},
}

func TestKeysStay(t *testing.T) {
	t.Parallel()
	e := realProject(t, "keys")
	e.Share()
	want := variation{}.build(t, e)
	if len(want) < 60 {
		t.Fatalf("only %d actions were built", len(want))
	}
	for _, v := range sameKeys {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if diff := changed(want, v.build(t, e)); diff != nil {
				t.Errorf("the keys of %d of %d actions are others: %s", len(diff), len(want), strings.Join(diff, " "))
			}
		})
	}
}

// The name of the build tree is in what compilers are told of generated files and objects, and of a
// module in the key of its manifest alone, which is written in a millisecond and says the same.
func TestKeysOfAnotherBuildTree(t *testing.T) {
	t.Parallel()
	e := realProject(t, "keys")
	e.Share()
	e.Kbuild("module.m")
	c := e.Kbuild("--build-dir", "another tree", "module.m")
	if c.Kinds != "embed 1, host-compile 1, manifest 1" {
		t.Errorf("another tree: %+v", c)
	}
	diff := changed(e.keys("build"), e.keys("another tree"))
	if got := strings.Join(diff, " "); got != "gen/module.m/m_table.c modules/m.int.4.json obj/module.m/m_table.o" {
		t.Errorf("the keys are others of %s", got)
	}
	for _, file := range []string{"m.int.4.sm_80.cubin", "m.int.4.compute_90.ptx", "m.int.4.fatbin", "m.int.4.lto_80.ltoir", "m.int.4.json"} {
		if string(e.Read("build/modules/"+file)) != string(e.Read("another tree/modules/"+file)) {
			t.Errorf("%s differs", file)
		}
	}
	e.Run("rm", "-r", "build", "another tree")
	if c := e.Kbuild("--build-dir", "another tree", "module.m"); c.Ran != 0 {
		t.Errorf("that tree again: %+v", c)
	}
	if c := e.Kbuild("--build-dir", "another tree", "module.m"); c.Up_to_date != c.Actions {
		t.Errorf("and again: %+v", c)
	}
}

// What must change a key (and each program of the toolkit, see testdata/script/toolkit.txtar), and
// of which artifacts of the module or of which object.
func TestKeysChange(t *testing.T) {
	t.Parallel()
	e := realProject(t, "keys")
	e.Share()
	was := variation{}.build(t, e)
	const all = "cubin ptx fatbin ltoir"
	for _, c := range []struct {
		variation
		in  string // outputs whose keys are others, by a part of the name
		not string // and of none of these
	}{
		{variation{name: "a source", prepare: `sed -i 's/FIRST/SECOND/' m.cu`}, all, "src/ s.so"},
		{variation{name: "a value of a define", args: []string{"--var", "scale=3"}}, "src/b.cu.o libk.a", "modules/ s.so c.cu.o/compute_80.stub.c"},
		{variation{name: "a header", prepare: "echo '__device__ void more();' >>inc/scale.cuh"}, "src/a.cu.o src/b.cu.o", "src/c.cu.o modules/ s.so"},
		{variation{name: "what a generate block makes", prepare: "sed -i s/7/8/ tools/table.sh"}, "table.h src/a.cu.o", "modules/ s.so"},
		{variation{name: "a flag of ptxas", prepare: `sed -i 's/"-DSECOND=2"\]/&, ptxas = ["-O1"]/' kernels.hcl`}, "cubin fatbin", "src/ s.so modules/m.int.4.compute_80.ptx"},
		{variation{name: "the order of flags", prepare: `sed -i 's/"-DFIRST=1", "-DSECOND=2"/"-DSECOND=2", "-DFIRST=1"/' kernels.hcl`}, "modules/m.int.4.fatbin/compute_80.ii", "s.so"},
		{variation{name: "fewer architectures", args: []string{"--arch", "sm_90"}}, "sm_80.cubin fatbin libk.a", "s.so"},
		{variation{name: "an option", prepare: `sed -i 's/^defaults {/&\n  fmad = false/' kernels.hcl`}, all + " src/a.cu.o", "s.so plain.c.o"},
		{variation{name: "the environment of nvcc", env: []string{"NVCC_APPEND_FLAGS=-DMORE"}}, all, ""},
		{variation{name: "the environment of gcc", env: []string{"CPATH=/usr/local/include"}}, all + " s.so plain.c.o", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != nil { // every pass runs again
				tooltest.Broad(t)
			}
			t.Parallel()
			diff := strings.Join(changed(was, c.build(t, e)), "\n")
			for _, name := range strings.Fields(c.in) {
				if !strings.Contains(diff, name) {
					t.Errorf("no key of %s is another", name)
				}
			}
			for _, name := range strings.Fields(c.not) {
				if strings.Contains(diff, name) {
					t.Errorf("a key of %s is another:\n%s", name, diff)
				}
			}
		})
	}
}
