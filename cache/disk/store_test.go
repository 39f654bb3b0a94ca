package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kbuild-dev/kbuild/cache"
)

func digestOf(s string) cache.Digest { return sha256.Sum256([]byte(s)) }

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// action is a record with outputs of these contents, and the files to store it from.
func action(t testing.TB, name string, contents ...string) (*cache.Record, func(cache.Output) string) {
	t.Helper()
	dir := t.TempDir()
	r := &cache.Record{Command: digestOf(name), Fields: []cache.Field{{Name: "arg", Value: name}}, Text: "warning: ä\n", Made: time.Unix(1700000000, 5).UTC()}
	for i, c := range contents {
		o := cache.Output{Path: fmt.Sprint("build/out", i), Digest: digestOf(c), Size: int64(len(c)), Exec: i == 1}
		r.Outputs = append(r.Outputs, o)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(o.Path)), []byte(c), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return r, func(o cache.Output) string { return filepath.Join(dir, filepath.Base(o.Path)) }
}

func put(t testing.TB, s *Store, name string, contents ...string) *cache.Record {
	t.Helper()
	r, file := action(t, name, contents...)
	if err := s.Put(t.Context(), r, file); err != nil {
		t.Fatal(err)
	}
	return r
}

func lookedUp(t testing.TB, s *Store, command cache.Key) []*cache.Record {
	t.Helper()
	rs, err := s.Records(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// blobOf is where content lies, or would lie as it is.
func blobOf(t testing.TB, s *Store, d cache.Digest) string {
	t.Helper()
	if name, _, _, err := s.findBlob(d); err == nil {
		return name
	}
	return s.blobName(d, false)
}

func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func write(t testing.TB, name, content string) {
	t.Helper()
	os.Remove(name)
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestPutAndRestore(t *testing.T) {
	s := open(t, t.TempDir())
	contents := []string{"object", "#!/bin/sh\n", "", strings.Repeat("big", 300_000), noise(100_000)}
	r := put(t, s, "a", contents...)
	if diff := cmp.Diff([]*cache.Record{r}, lookedUp(t, s, r.Command)); diff != "" {
		t.Error(diff)
	}
	dir := t.TempDir()
	for i, o := range r.Outputs {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := s.Restore(t.Context(), o, name); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(name)
		info, _ := os.Stat(name)
		if string(b) != contents[i] || (info.Mode().Perm()&0o100 != 0) != o.Exec || info.Mode().Perm()&0o200 == 0 {
			t.Errorf("output %d: %d bytes, mode %v", i, len(b), info.Mode())
		}
		if info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Error("restored by hard link")
		}
	}
	if err := s.Restore(t.Context(), r.Outputs[0], filepath.Join(dir, "0")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists was overwritten: %v", err)
	}
	if left := files(t, s.path("tmp")); left != nil {
		t.Errorf("left in tmp: %v", left)
	}
}

// An edit of a restored file must not reach the cache.
func TestRestoredFileIsACopy(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "a", "object")
	dir := t.TempDir()
	if err := s.Restore(t.Context(), r.Outputs[0], filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	f, _ := os.OpenFile(filepath.Join(dir, "1"), os.O_WRONLY, 0)
	f.WriteString("edited")
	f.Close()
	err := s.Restore(t.Context(), r.Outputs[0], filepath.Join(dir, "2"))
	if b, _ := os.ReadFile(filepath.Join(dir, "2")); err != nil || string(b) != "object" {
		t.Errorf("restored again: %q, %v", b, err)
	}
}

func TestNoEntry(t *testing.T) {
	s := open(t, t.TempDir())
	if rs := lookedUp(t, s, digestOf("never")); len(rs) != 0 {
		t.Error(rs)
	}
	name := filepath.Join(t.TempDir(), "x")
	err := s.Restore(t.Context(), cache.Output{Path: "x", Digest: digestOf("never")}, name)
	if !errors.Is(err, fs.ErrNotExist) || exists(name) {
		t.Error(err)
	}
}

func TestRecordsAreLastUsedFirst(t *testing.T) {
	s := open(t, t.TempDir())
	var made []*cache.Record
	for i := range 3 {
		r, file := action(t, "one command", "x")
		r.Discovered = []cache.FileDigest{{Path: "a.h", Digest: digestOf(fmt.Sprint(i))}}
		at := time.Unix(1700000000+int64(i), 0)
		s.now = func() time.Time { return at }
		if err := s.Put(t.Context(), r, file); err != nil {
			t.Fatal(err)
		}
		s.Used(r)
		made = append(made, r)
	}
	s.now = func() time.Time { return time.Unix(1700000100, 0) }
	s.Used(made[1])
	want := []*cache.Record{made[1], made[2], made[0]}
	if diff := cmp.Diff(want, lookedUp(t, s, made[0].Command)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsOfOneCommandAreBounded(t *testing.T) {
	s := open(t, t.TempDir())
	r, file := action(t, "one command", "x")
	for i := range maxRecords + 5 {
		r.Discovered = []cache.FileDigest{{Path: "a.h", Digest: digestOf(fmt.Sprint(i))}}
		if err := s.Put(t.Context(), r, file); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(lookedUp(t, s, r.Command)); n != maxRecords {
		t.Errorf("%d records", n)
	}
}

// Each damage to each file is a miss or an error, removes the entry, and the next Put repairs it.
func TestDamage(t *testing.T) {
	damages := map[string]func(content string) string{
		"empty":     func(string) string { return "" },
		"cut":       func(c string) string { return c[:len(c)-1] },
		"longer":    func(c string) string { return c + "\n" },
		"flipped":   func(c string) string { return flip(c, len(c)/2) },
		"first bit": func(c string) string { return flip(c, 0) },
		"zeros":     func(c string) string { return strings.Repeat("\x00", len(c)) },
	}
	for name, damage := range damages {
		for _, content := range []string{"object content", strings.Repeat("shrinks ", 3_000)} {
			t.Run("blob "+name+" "+content[:6], func(t *testing.T) {
				s := open(t, t.TempDir())
				r := put(t, s, "a", content)
				blob := blobOf(t, s, r.Outputs[0].Digest)
				b, _ := os.ReadFile(blob)
				write(t, blob, damage(string(b)))
				dst := filepath.Join(t.TempDir(), "x")
				err := s.Restore(t.Context(), r.Outputs[0], dst)
				if !errors.Is(err, cache.ErrCorrupt) || exists(blob) || exists(dst) {
					t.Errorf("%v; blob there: %v, half a file there: %v", err, exists(blob), exists(dst))
				}
				put(t, s, "a", content)
				if err := s.Restore(t.Context(), r.Outputs[0], dst); err != nil {
					t.Error(err)
				}
			})
		}
		t.Run("record "+name, func(t *testing.T) {
			s := open(t, t.TempDir())
			r := put(t, s, "a", "object content")
			b, _ := os.ReadFile(s.record(r))
			write(t, s.record(r), damage(string(b)))
			if rs := lookedUp(t, s, r.Command); len(rs) != 0 || exists(s.record(r)) {
				t.Errorf("%d records; file there: %v", len(rs), exists(s.record(r)))
			}
			put(t, s, "a", "object content")
			if rs := lookedUp(t, s, r.Command); len(rs) != 1 {
				t.Error("not repaired")
			}
		})
	}
}

// noise does not shrink.
func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

func flip(s string, i int) string { return s[:i] + string(s[i]^1) + s[i+1:] }

// No byte of a record can change unseen, also where it would still be a record: in a digest, in a
// path.
func TestEveryByteOfARecord(t *testing.T) {
	s := open(t, t.TempDir())
	r, file := action(t, "a", "x")
	r.Discovered = []cache.FileDigest{{Path: "a.h", Digest: digestOf("a.h")}}
	if err := s.Put(t.Context(), r, file); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(s.record(r))
	for i := range b {
		write(t, s.record(r), flip(string(b), i))
		if len(lookedUp(t, s, r.Command)) != 0 {
			t.Fatalf("byte %d is another, and nobody noticed", i)
		}
	}
}

// A whole and valid entry under the name of another.
func TestSwappedEntries(t *testing.T) {
	s := open(t, t.TempDir())
	a, b := put(t, s, "a", "content of a"), put(t, s, "b", "content of b")
	write(t, blobOf(t, s, a.Outputs[0].Digest), "content of b")
	dst := filepath.Join(t.TempDir(), "x")
	if err := s.Restore(t.Context(), a.Outputs[0], dst); !errors.Is(err, cache.ErrCorrupt) || exists(dst) {
		t.Error(err)
	}
	other, _ := os.ReadFile(s.record(b))
	write(t, s.record(a), string(other))
	if rs := lookedUp(t, s, a.Command); len(rs) != 0 || exists(s.record(a)) {
		t.Error("the record of another command was accepted")
	}
	c := *b
	c.Absent = []string{"x.h"} // another id
	write(t, s.record(&c), string(other))
	if rs := lookedUp(t, s, b.Command); len(rs) != 1 || !exists(s.record(&c)) { // it may be that of another version
		t.Error("a record under another id was accepted, or removed")
	}
}

func TestPutChecksTheFiles(t *testing.T) {
	for _, stored := range []bool{false, true} {
		s := open(t, t.TempDir())
		if stored {
			put(t, s, "other", "first", "second")
		}
		r, file := action(t, "a", "first", "second")
		write(t, file(r.Outputs[1]), "SECOND") // changed after it was hashed
		if err := s.Put(t.Context(), r, file); err == nil {
			t.Error("a file that is not what the record says was stored")
		}
		if rs := lookedUp(t, s, r.Command); len(rs) != 0 || exists(s.record(r)) {
			t.Error("there is a record")
		}
		if left := files(t, s.path("tmp")); left != nil {
			t.Errorf("left in tmp: %v", left)
		}
	}
}

// A failure or a kill at each step leaves either nothing to be found or the whole entry.
func TestFailureAtEachStep(t *testing.T) {
	boom := errors.New("boom")
	for step := 0; ; step++ {
		s := open(t, t.TempDir())
		r, file := action(t, "a", "first", "second")
		n := 0
		s.fault = func(string) error {
			for _, o := range r.Outputs {
				if exists(s.record(r)) && !exists(blobOf(t, s, o.Digest)) {
					t.Errorf("step %d: the record appeared before its blobs", n)
				}
			}
			if n++; n > step {
				return boom
			}
			return nil
		}
		err := s.Put(t.Context(), r, file)
		if err == nil {
			if step < 5 {
				t.Errorf("a Put has only %d steps", step)
			}
			return
		}
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		s.fault = nil
		if left := files(t, s.path("tmp")); left != nil {
			t.Errorf("step %d left in tmp: %v", step, left)
		}
		if rs := lookedUp(t, s, r.Command); len(rs) != 0 {
			t.Errorf("step %d left a record", step)
		}
		put(t, s, "a", "first", "second")
	}
}

func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	r, file := action(t, "a", "x")
	s.fault = func(step string) error {
		if step == "write" {
			return &fs.PathError{Op: "write", Path: "tmp", Err: syscall.ENOSPC}
		}
		return nil
	}
	err := s.Put(t.Context(), r, file)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left for the cache") || !strings.Contains(err.Error(), s.dir) {
		t.Error(err)
	}
	o := cache.Output{Path: "x", Digest: r.Outputs[0].Digest, Size: r.Outputs[0].Size}
	var local WriteError
	if err := s.Receive(t.Context(), o, strings.NewReader("x")); !errors.As(err, &local) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("receiving: %v", err)
	}
	s.fault = nil
	if err := s.Receive(t.Context(), o, strings.NewReader("y")); err == nil || errors.As(err, &local) {
		t.Errorf("receiving what is wrong: %v", err)
	}
	put(t, s, "a", "x")
	s.fault = func(string) error { return syscall.ENOSPC }
	dst := filepath.Join(t.TempDir(), "x")
	if err := s.Restore(t.Context(), r.Outputs[0], dst); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, cache.ErrCorrupt) || exists(dst) {
		t.Errorf("%v; half a file there: %v", err, exists(dst))
	}
	if !exists(blobOf(t, s, r.Outputs[0].Digest)) {
		t.Error("a full disk at the destination cost the blob")
	}
}

func TestCancelled(t *testing.T) {
	s := open(t, t.TempDir())
	r, file := action(t, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, r, file); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if found := append(files(t, s.path("tmp")), files(t, s.path("records"))...); found != nil {
		t.Error(found)
	}
	put(t, s, "a", "x")
	dst := filepath.Join(t.TempDir(), "x")
	if err := s.Restore(ctx, r.Outputs[0], dst); !errors.Is(err, context.Canceled) || errors.Is(err, cache.ErrCorrupt) || exists(dst) {
		t.Error(err)
	}
	if !exists(blobOf(t, s, r.Outputs[0].Digest)) {
		t.Error("cancelling cost the blob")
	}
}

func TestDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{EnvDir: "/x/../c", "XDG_CACHE_HOME": "/xdg"}, "/c"},
		{map[string]string{"XDG_CACHE_HOME": "/xdg", "HOME": "/home/a"}, "/xdg/kbuild"},
		{map[string]string{"XDG_CACHE_HOME": "xdg", "HOME": "/home/a"}, "/home/a/.cache/kbuild"},
		{map[string]string{EnvDir: "relative", "HOME": "/home/a"}, ""},
		{nil, ""},
	} {
		got, err := Dir(func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %q, %v; want %q", c.env, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), EnvDir) {
			t.Errorf("%q does not say what to set", err)
		}
	}
}

func TestOpenWhereNothingCanBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	_, err := Open(filepath.Join(file, "cache"))
	if err == nil || !strings.Contains(err.Error(), EnvDir) || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if _, err := Open("relative"); err == nil {
		t.Error("a relative folder was accepted")
	}
}

func TestConcurrently(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for g := range 4 {
		s := open(t, dir)
		out := t.TempDir()
		actions := make([]func() error, 5)
		for i := range actions {
			r, file := action(t, fmt.Sprint(i), fmt.Sprint("content ", i), "shared")
			actions[i] = func() error {
				if err := s.Put(t.Context(), r, file); err != nil {
					return err
				}
				rs, err := s.Records(t.Context(), r.Command)
				for _, r := range rs {
					for _, o := range r.Outputs {
						name := filepath.Join(out, "x")
						if err := s.Restore(t.Context(), o, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
							return err
						}
						os.Remove(name)
					}
					s.Used(r)
				}
				return err
			}
		}
		wg.Go(func() {
			for i := range 40 {
				if g != 3 {
					if err := actions[i%5](); err != nil {
						t.Error(err)
					}
					continue
				}
				// Old, so that gc takes every blob that no record names, also from under a Put.
				blobs, _ := s.allBlobs(t.Context())
				for _, b := range blobs {
					os.Chtimes(b.name, time.Time{}, time.Now().Add(-5*time.Hour))
				}
				if _, err := s.GC(t.Context(), 1, 0); err != nil {
					t.Error(err)
				}
				_, problems, err := s.Verify(t.Context(), true)
				if err != nil {
					t.Error(err)
				}
				for _, p := range problems {
					if errors.Is(p.Err, cache.ErrCorrupt) {
						t.Error(p)
					}
				}
			}
		})
	}
	wg.Wait()
	res, _, err := open(t, dir).Verify(t.Context(), false)
	if err != nil {
		t.Error(err, res)
	}
	if left := files(t, filepath.Join(dir, version, "tmp")); left != nil {
		t.Error(left)
	}
}

// A record that another process writes is found, also where this one has looked before.
func TestRecordsOfOthers(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine, theirs := open(), open()
	if rs := lookedUp(t, mine, digestOf("a")); len(rs) != 0 {
		t.Fatalf("%d records in an empty store", len(rs))
	}
	a := put(t, theirs, "a", "text")
	if rs := lookedUp(t, mine, a.Command); len(rs) != 1 {
		t.Errorf("%d records that another wrote, want 1", len(rs))
	}
	if err := os.Remove(theirs.record(a)); err != nil {
		t.Fatal(err)
	}
	if rs := lookedUp(t, mine, a.Command); len(rs) != 0 {
		t.Errorf("%d records that another removed", len(rs))
	}
}
