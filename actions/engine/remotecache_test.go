package engine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

const pretended = "grpcs://cache.example:8980/team"

// Who names the cache, who may forbid to send, and who learns who asks.
func TestRemoteCache(t *testing.T) {
	mine, none := "grpcs://mine.example", ""
	named, readOnly := manifest.Cache{Remote: pretended}, manifest.Cache{Remote: pretended, ReadOnly: true}
	for _, tt := range []struct {
		what     string
		remote   *string
		hosts    string
		readOnly bool
		manifest manifest.Cache
		want     remote.Options
	}{
		{what: "nobody"},
		{"the manifest", nil, "", false, named, remote.Options{Address: pretended, Server: "cache.example:8980", Anonymous: true}},
		{"the manifest, and the user trusts it", nil, "Cache.Example:8980", false, named, remote.Options{Address: pretended, Server: "cache.example:8980"}},
		{"the manifest, and the user trusts another port", nil, "cache.example:443", false, named, remote.Options{Address: pretended, Server: "cache.example:8980", Anonymous: true}},
		{"the manifest, and the user trusts others", nil, "a:1 mine.example:443", false, named, remote.Options{Address: pretended, Server: "cache.example:8980", Anonymous: true}},
		{"the user", &mine, "", false, named, remote.Options{Address: mine, Server: "mine.example:443"}},
		{"the user, who has listed it", &mine, "a:1 mine.example:443", false, named, remote.Options{Address: mine, Server: "mine.example:443"}},
		{"the user, who has listed others", &mine, "a:1", false, named, remote.Options{Address: mine, Server: "mine.example:443", Anonymous: true}},
		{"the user, to turn it off", &none, "", false, named, remote.Options{}},
		{"read only by the manifest", nil, "", false, readOnly, remote.Options{Address: pretended, Server: "cache.example:8980", ReadOnly: true, Anonymous: true}},
		{"read only by the manifest, which names another", &mine, "", false, readOnly, remote.Options{Address: mine, Server: "mine.example:443", ReadOnly: true}},
		{"read only by the user", nil, "", true, named, remote.Options{Address: pretended, Server: "cache.example:8980", ReadOnly: true, Anonymous: true}},
	} {
		w := &Workspace{Options: Options{Remote: tt.remote, RemoteHosts: strings.Fields(tt.hosts), ReadOnly: tt.readOnly}}
		if got := w.remoteOptions(tt.manifest); got.Address != tt.want.Address || got.Address != "" && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// The cache that a manifest names is used by builds that read the manifest and by those that do
// not, and another address runs nothing.
func TestRemoteOfManifest(t *testing.T) {
	p := rebuilt(t)
	s := p.server()
	t.Setenv("KBUILD_REMOTE_TOKEN_FILE", "secret")
	block := "\ncache {\n  remote = %q\n}\n"
	text, err := os.ReadFile(p.path("kernels.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("kernels.hcl", strings.Replace(string(text), `, "kernels.hcl"`, "", 1)+fmt.Sprintf(block, pretended))
	connected := func(what, want string) {
		t.Helper()
		if got := s.connections(); got != want {
			t.Errorf("%s: connected to %q, want %q", what, got, want)
		}
	}
	const anonymous = pretended + ` read only false token ""`
	first := p.build()
	if first.sum.Ran != first.sum.Actions {
		t.Errorf("the first build: %s", first)
	}
	connected("the first build", anonymous)
	if n := first.run.Options.Checks; n != remote.Checks {
		t.Errorf("%d checks at once with a remote cache", n)
	}
	p.expect("the second build", p.build(), "view:")
	connected("the second build", "")
	p.write("inc/a.h", "int edited;\n")
	p.expect("a header", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("a header", anonymous)
	p.replace("kernels.hcl", "team\"", "another\"\n  read_only = true")
	p.write("inc/a.h", "int more;\n") // a build that finds all up to date may end before it has connected
	p.expect("another address", p.build(), "plan: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("another address", strings.Replace(strings.Replace(anonymous, "team", "another", 1), "false", "true", 1))
	p.write("inc/a.h", "int again;\n")
	none := ""
	p.workspace = func(w *Workspace) { w.Remote = &none }
	without := p.build()
	p.expect("without", without, "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	if n := without.run.Options.Checks; n != 0 {
		t.Errorf("%d checks at once without a remote cache", n)
	}
	connected("without", "")
	p.write("inc/a.h", "int once more;\n")
	p.workspace = func(w *Workspace) { w.RemoteHosts = []string{"cache.example:8980"} }
	p.expect("with a token", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("with a token", strings.Replace(pretended, "team", "another", 1)+` read only true token "secret"`)
}

// Without kbuild-remote a cache that the manifest names is not used, and one that the user names is
// an error.
func TestNoProgramForRemote(t *testing.T) {
	p := newProject(t, map[string]string{"kernels.hcl": "variable \"def\" {\n  type = string\n}\n\ncache {\n  remote = \"" + pretended + "\"\n}\n\nlibrary \"k\" {\n  sources = [\"k.cpp\"]\n}\n",
		"k.cpp": "int k;\n"})
	if _, err := remoteProgram(); err == nil {
		t.Setenv("PATH", p.bin)
	}
	f := p.build()
	if p.expect("the manifest names it", f, "plan: ran lib/libk.a obj/library.k/k.cpp.o"); !strings.Contains(strings.Join(f.printed, "\n"), "neither beside kbuild nor in PATH") {
		t.Errorf("it says %q", f.printed)
	}
	p.write("k.cpp", "int edited;\n")
	address := pretended
	p.workspace = func(w *Workspace) { w.Remote = &address }
	if f := p.build(); f.err == nil || !strings.Contains(f.err.Error(), "neither beside kbuild nor in PATH") {
		t.Errorf("the user names it: %v", f.err)
	}
}

// machine is a checkout of a project on another machine: nothing is built, and its cache is empty.
// It takes from the server.
func (p *project) machine() {
	p.remove("build")
	p.remove("../cache")
}

// origins are those that explanations tell, of records that are cached or up to date, with the
// number of each.
func (p *project) origins() string {
	p.t.Helper()
	w := p.newWorkspace(&ui{})
	w.DryRun = true
	project, tree, want, err := w.Open(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer tree.Close()
	count := map[string]int{}
	for _, e := range execute.NewDryRun(tree.Runner).Explain(project.Graph.Closure(want), tree.Imported()) {
		count[e.State+" "+e.Origin]++
	}
	return fmt.Sprint(count)
}

// Where a record came from is known as long as this machine has it, and to no other.
func TestOrigin(t *testing.T) {
	p := rebuilt(t)
	s := p.server()
	address := pretended
	p.workspace = func(w *Workspace) { w.Remote = &address }
	first := p.build()
	n := first.sum.Actions
	originsAre := func(what, state string, remote int) {
		t.Helper()
		want := map[string]int{state + " " + pretended: remote, state + " ": n - remote}
		maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
		if got := p.origins(); got != fmt.Sprint(want) {
			t.Errorf("%s: %s, want %v", what, got, want)
		}
	}
	originsAre("what ran here", "up_to_date", 0)
	p.machine()
	if f := p.build(); f.sum.Cached != n {
		t.Fatalf("another machine: %s", f)
	}
	originsAre("what came", "up_to_date", n)
	p.remove("build")
	originsAre("what is in the cache here", "cached", n)
	p.workspace = func(*Workspace) {}
	if f := p.build(); f.sum.Cached != n {
		t.Fatalf("without the server: %s", f)
	}
	originsAre("what came back out of the cache here", "up_to_date", n)
	if c := p.counters(); c.Remote != int64(n) || c.Hits() != int64(2*n) || c.Received == 0 || c.Sent != 0 {
		t.Errorf("counted: %+v", c)
	}
	p.write("inc/a.h", "int edited;\n")
	p.build()
	originsAre("what ran since", "up_to_date", n-3)
	s.connections()
	err := filepath.WalkDir(s.dir, func(name string, d os.DirEntry, err error) error {
		if text, e := os.ReadFile(name); e == nil && strings.Contains(string(text), pretended) {
			t.Errorf("the server knows %s by its name", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counters are those of the project's cache.
func (p *project) counters() cache.Counters {
	p.t.Helper()
	store, err := disk.Open(p.path("../cache"))
	if err != nil {
		p.t.Fatal(err)
	}
	st, err := store.Stats(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return st.Counters
}

// Records of one id under many keys are told apart: each that came is kept, and counted as often as
// it was used.
func TestSharedID(t *testing.T) {
	p := rebuilt(t)
	p.server()
	address := pretended
	p.workspace = func(w *Workspace) { w.Remote = &address }
	local, err := disk.Open(p.path("../cache"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.newWorkspace(&ui{}).openRemote(local, manifest.Cache{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.remote.Close()
	a := &cache.Record{Command: cache.Key{1}, Outputs: []cache.Output{{Path: "a", Unkept: true}}}
	b := &cache.Record{Command: cache.Key{2}, Outputs: a.Outputs}
	for _, r := range []*cache.Record{a, b, a} {
		if !s.Confirm(t.Context(), r) {
			t.Fatal("the server does not have it")
		}
	}
	for _, r := range []*cache.Record{a, a, a, b} {
		s.Used(r)
	}
	for _, r := range []*cache.Record{a, b} {
		if kept, err := local.Records(t.Context(), r.Command); err != nil || len(kept) != 1 {
			t.Errorf("of key %v: %v %v", r.Command[0], kept, err)
		}
	}
	if n := s.taken.Load(); n != 2 {
		t.Errorf("%d records from there, want 2", n)
	}
}

// passed is a project with passes that hand much to each other.
func passed(t *testing.T) *project {
	return newProject(t, map[string]string{
		"kernels.hcl": `
variable "def" {
  type = string
}

executable "app" {
  sources = ["a.cu", "b.cu"]
  code    = ["sm_80", "sm_90"]
  mode    = "rdc"
}
`,
		"a.cu": "__global__ void a() {}\nint main() {}\n", "b.cu": "__global__ void b() {}\n",
	})
}

// What came from a server is found again without it, though the content between passes never came;
// where that is wanted, passes run again. With the server it is taken from there.
func TestWithoutServer(t *testing.T) {
	p := passed(t)
	s := p.server()
	address := pretended
	with, without := func(w *Workspace) { w.Remote = &address }, func(*Workspace) {}
	p.workspace = with
	n := p.build().sum.Actions
	p.machine()
	if f := p.build(); f.sum.Cached != n {
		t.Fatalf("another machine: %s", f)
	}
	p.workspace = without
	p.remove("build")
	if f := p.build(); f.sum.Cached != n {
		t.Errorf("without the server: %s", f)
	}
	if res := p.verify(); res.Problems > 0 {
		t.Errorf("the cache: %+v", res)
	}
	const mode, edited = "mode    = \"rdc\"", "mode    = \"rdc\"\n  flags   = { ptxas = [\"-O1\"] }" // assembles again what cicc has made
	p.replace("kernels.hcl", mode, edited)
	edit := p.build()
	if edit.err != nil || edit.sum.Failed > 0 {
		t.Fatalf("an edit without the server: %s", edit)
	}
	got := read(t, p.path("build/bin/app"))
	p.remove("build")
	p.workspace = func(w *Workspace) { w.NoCache = true }
	if p.build(); read(t, p.path("build/bin/app")) != got {
		t.Error("an edit without the server makes another program")
	}

	p.replace("kernels.hcl", edited, mode)
	p.workspace = with
	p.machine()
	p.build()
	p.remove("build")
	p.build() // by the records here
	p.replace("kernels.hcl", mode, edited)
	before := p.counters()
	if f := p.build(); f.sum.Failed > 0 || f.sum.Ran != edit.sum.Ran || read(t, p.path("build/bin/app")) != got {
		t.Errorf("an edit with the server: %s", f)
	}
	if c := p.counters(); c.Received == before.Received {
		t.Errorf("nothing was taken from the server that another pass needs: %+v", c)
	}
	os.RemoveAll(s.dir)
	p.replace("kernels.hcl", "-O1", "-O2")
	if f := p.build(); f.err != nil || f.sum.Failed > 0 {
		t.Errorf("the server is gone: %s", f)
	}
}

func (p *project) verify() disk.VerifyResult {
	p.t.Helper()
	store, err := disk.Open(p.path("../cache"))
	if err != nil {
		p.t.Fatal(err)
	}
	res, _, err := store.Verify(p.t.Context(), false)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
