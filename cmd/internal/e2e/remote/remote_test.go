// Package remote_test builds with a cache on another machine: real servers of the Remote Execution
// API and of HTTP on this one.
package remote_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) {
	os.Setenv("KBUILD_REMOTE_PATIENCE", "1m") // a machine that has much to do is no fault of the server's
	e2e.Main(m)
}

// outputs are the files of a build tree that are not kbuild's own.
func outputs(t *testing.T, dir string) (files []string) {
	build := filepath.Join(dir, "build")
	err := filepath.WalkDir(build, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".kbuild" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(name, build+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What one checkout has built another takes from the server: it runs nothing, makes the same bytes,
// and gets no file but those it keeps.
func TestShared(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{
		"BuildGrid": tooltest.BuildGrid,
		"nginx":     func(t testing.TB) string { address, _ := tooltest.Nginx(t); return address + "/team" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.Example(t, "lto")
			address := start(t)
			if c := p.Kbuild("--remote", address); c.Ran != c.Actions {
				t.Fatalf("the first: %+v", c)
			}
			q := p.Checkout(t, "another", "check out")
			if c := q.Kbuild("--remote", address); c.Cached != c.Actions {
				t.Fatalf("another checkout: %+v", c)
			}
			if !bytes.Equal(p.Read("build/bin/app"), q.Read("build/bin/app")) {
				t.Error("another program")
			}
			why, _ := q.Run("kbuild", "why", "app")
			if want := "\n  its record came from the remote cache " + address + "\n"; !strings.Contains(why, want) {
				t.Errorf("%s\n... does not say: %s", why, want)
			}
			if stats, _ := q.Run("kbuild", "cache", "stats"); !strings.Contains(stats, "\nlocal hits   0 (0.0 %)\nremote hits  28 (100.0 %)\nreceived     ") {
				t.Errorf("%s", stats)
			}
			blobs, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(q.Dir)), "cache", "v2", "blobs", "*", "*"))
			if kept := outputs(t, q.Dir); len(blobs) == 0 || len(blobs) > len(kept) {
				t.Errorf("%d files were received, and the build tree has %q", len(blobs), kept)
			}
			q.Run("kbuild", "clean")
			if why, _ := q.Run("kbuild", "why", "app"); strings.Contains(why, "its record is from the cache of this machine") {
				t.Errorf("another checkout, after clean: %s", why)
			}
			if c := q.Kbuild(); c.Cached != c.Actions || !bytes.Equal(p.Read("build/bin/app"), q.Read("build/bin/app")) {
				t.Errorf("another checkout, without the server: %+v", c)
			}
			p.Run("kbuild", "clean")
			if why, _ := p.Run("kbuild", "why", "app"); !strings.Contains(why, "  its record is from the cache of this machine\n") || strings.Contains(why, address) {
				t.Errorf("the first, after clean: %s", why)
			}
			q.Write("src/main.cu", string(q.Read("src/main.cu"))+"\n// edited\n")
			if c := q.Kbuild("--remote", address); c.Ran == 0 || c.Failed > 0 {
				t.Errorf("after an edit: %+v", c)
			}
		})
	}
}

// A server that is not there, stops, or was filled with rubbish makes no build fail, and none
// wrong.
func TestFaults(t *testing.T) {
	p := e2e.Example(t, "hello")
	address, data := tooltest.Nginx(t)
	p.Kbuild("--remote", address+"/team")
	want := p.Read("build/bin/hello")
	spoil := func(kind string, to func(b []byte) []byte) {
		files, err := filepath.Glob(filepath.Join(data, "team", kind, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s", kind)
		}
		for _, f := range files {
			b, _ := os.ReadFile(f)
			if err := os.WriteFile(f, to(b), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name, address string
		fault         func()
		ran           bool
	}{
		{"nothing is wrong", address + "/team", func() {}, false},
		{"nobody listens", "grpc://127.0.0.1:1", func() {}, true},
		{"not what it says it is", strings.Replace(address, "http", "grpc", 1), func() {}, true},
		{"nothing may be written", address + "/no/way/to/write", func() { os.MkdirAll(filepath.Join(data, "no", "way", "to", "write", "ac"), 0o555) }, true},
		{"content is changed", address + "/team", func() { spoil("cas", func(b []byte) []byte { return bytes.Repeat([]byte{'x'}, len(b)) }) }, true},
		{"an output is changed that the build before did not look at", address + "/team", func() {}, true},
		{"what these builds have mended", address + "/team", func() {}, false},
		{"entries are rubbish", address + "/team", func() { spoil("ac", func([]byte) []byte { return []byte("\xff\xff\xff") }) }, true},
		{"what that build has mended again", address + "/team", func() {}, false},
	} {
		tt.fault()
		q := p.Checkout(t, "another", "check out")
		if c := q.Kbuild("--remote", tt.address); c.Failed+c.Skipped > 0 || (c.Ran > 0) != tt.ran {
			t.Errorf("%s: %+v", tt.name, c)
		}
		if !bytes.Equal(q.Read("build/bin/hello"), want) {
			t.Errorf("%s: another program", tt.name)
		}
	}
}

// The program that speaks to the server is killed in the middle: the build goes on.
func TestProgramKilled(t *testing.T) {
	p := e2e.Example(t, "hello")
	program := filepath.Join(t.TempDir(), "kbuild-remote")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nread line\necho '{\"id\":1,\"server\":\"x\"}'\nread line\nkill -9 $$\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	kbuild, err := os.ReadFile(p.Which("kbuild"))
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(filepath.Dir(program), "kbuild")
	if err := os.WriteFile(alone, kbuild, 0o777); err != nil {
		t.Fatal(err)
	}
	printed, status := p.Status(nil, alone, "--remote", "grpc://localhost:1")
	if status != 0 || strings.Count(printed, "kbuild-remote ended") != 1 {
		t.Errorf("exit %d: %s", status, printed)
	}
	os.Remove(program)
	if printed, status := p.Status([]string{"PATH=/usr/bin:/bin"}, alone, "--remote", "grpc://localhost:1", "--build-dir", "other"); status == 0 || !strings.Contains(printed, "neither beside kbuild nor in PATH") {
		t.Errorf("exit %d: %s", status, printed)
	}
}
