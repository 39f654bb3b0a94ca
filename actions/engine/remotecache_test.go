package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
		want     remoteCache
	}{
		{what: "nobody"},
		{"the manifest", nil, "", false, named, remoteCache{pretended, "cache.example:8980", false, true}},
		{"the manifest, and the user trusts it", nil, "Cache.Example:8980", false, named, remoteCache{pretended, "cache.example:8980", false, false}},
		{"the manifest, and the user trusts another port", nil, "cache.example:443", false, named, remoteCache{pretended, "cache.example:8980", false, true}},
		{"the manifest, and the user trusts others", nil, "a:1 mine.example:443", false, named, remoteCache{pretended, "cache.example:8980", false, true}},
		{"the user", &mine, "", false, named, remoteCache{mine, "mine.example:443", false, false}},
		{"the user, who has listed it", &mine, "a:1 mine.example:443", false, named, remoteCache{mine, "mine.example:443", false, false}},
		{"the user, who has listed others", &mine, "a:1", false, named, remoteCache{mine, "mine.example:443", false, true}},
		{"the user, who wants none", &none, "", false, named, remoteCache{}},
		{"read only by the manifest", nil, "", false, readOnly, remoteCache{pretended, "cache.example:8980", true, true}},
		{"read only by the manifest, which names another", &mine, "", false, readOnly, remoteCache{mine, "mine.example:443", true, false}},
		{"read only by the user", nil, "", true, named, remoteCache{pretended, "cache.example:8980", true, true}},
	} {
		w := &Workspace{Remote: tt.remote, RemoteHosts: strings.Fields(tt.hosts), ReadOnly: tt.readOnly}
		if got := w.remoteCache(tt.manifest); got.address != tt.want.address || got.address != "" && got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// The cache that a manifest names is used by builds that read the manifest and by those that do not, and another address runs nothing.
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
	if first := p.build(); first.sum.Ran != first.sum.Actions {
		t.Errorf("the first build: %s", first)
	}
	connected("the first build", anonymous)
	p.expect("the second build", p.build(), "view:")
	connected("the second build", "")
	p.write("inc/a.h", "int edited;\n")
	p.expect("a header", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("a header", anonymous)
	p.replace("kernels.hcl", "team\"", "another\"\n  read_only = true")
	p.expect("another address", p.build(), "plan:")
	connected("another address", strings.Replace(strings.Replace(anonymous, "team", "another", 1), "false", "true", 1))
	p.write("inc/a.h", "int again;\n")
	none := ""
	p.workspace = func(w *Workspace) { w.Remote = &none }
	p.expect("without", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("without", "")
	p.write("inc/a.h", "int once more;\n")
	p.workspace = func(w *Workspace) { w.RemoteHosts = []string{"cache.example:8980"} }
	p.expect("with a token", p.build(), "part: ran bin/app lib/libk.a obj/library.k/k/a.cpp.o")
	connected("with a token", strings.Replace(pretended, "team", "another", 1)+` read only true token "secret"`)
}

// Without kbuild-remote a cache that the manifest names is not used, and one that the user names is an error.
func TestNoProgramForRemote(t *testing.T) {
	p := newProject(t, map[string]string{"kernels.hcl": "variable \"def\" {\n  type = string\n}\n\ncache {\n  remote = \"" + pretended + "\"\n}\n\nlibrary \"k\" {\n  sources = [\"k.cpp\"]\n}\n",
		"k.cpp": "int k;\n"})
	if _, err := remoteProgram(); err == nil {
		t.Setenv("PATH", p.bin)
	}
	f := p.build()
	if p.expect("the manifest names it", f, "plan: ran lib/libk.a obj/library.k/k.cpp.o"); !strings.Contains(strings.Join(f.said, "\n"), "neither beside kbuild nor in PATH") {
		t.Errorf("it says %q", f.said)
	}
	p.write("k.cpp", "int edited;\n")
	address := pretended
	p.workspace = func(w *Workspace) { w.Remote = &address }
	if f := p.build(); f.err == nil || !strings.Contains(f.err.Error(), "neither beside kbuild nor in PATH") {
		t.Errorf("the user names it: %v", f.err)
	}
}
