package quick

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
)

// remembered is a command in a folder that read a file and looked for another.
func remembered(t *testing.T) (c *Call, key cache.Key, dir string) {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write(t, dir, "a.cu", "source")
	old := time.Now().Add(-time.Hour)
	os.Chtimes(filepath.Join(dir, "a.cu"), old, old)
	made := write(t, dir, "made", "object")
	o := cache.Output{Path: "out/a.o", Digest: digest(t, made), Size: 6}
	rec := &cache.Record{Command: cache.KeyOf(nil), Outputs: []cache.Output{o}}
	if err := store.Put(t.Context(), rec, func(cache.Output) string { return made }); err != nil {
		t.Fatal(err)
	}
	os.Remove(made)
	source := filepath.Join(dir, "a.cu")
	stat, err := cache.StatFile(source)
	if err != nil {
		t.Fatal(err)
	}
	key, _ = commandKey([]string{"/nvcc", "-c", "a.cu"}, dir, Base{}, []string{"A=1"}, nil)
	c = &Call{Store: store, Dir: dir, Key: key, Begun: time.Now()}
	err = c.Keep(key, []cache.Observation{{Path: "a.cu", Kind: cache.KindFile, Stat: stat, Digest: digest(t, source)}, {Path: "absent.h", Kind: cache.KindAbsent}},
		&Made{Outputs: []cache.Output{o}, Files: []Text{{Path: "out/a.d", Text: []byte("a.o : a.cu\n")}}, Stderr: "warning\n", Peaks: map[string]int64{"ptxas": 7}})
	if err != nil {
		t.Fatal(err)
	}
	return c, key, dir
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func digest(t *testing.T, file string) cache.Digest {
	t.Helper()
	d, err := cache.DigestFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What is remembered comes back as long as what it depended on is what it was, by content if not by
// stat.
func TestFind(t *testing.T) {
	c, key, dir := remembered(t)
	made, holds, changed := c.find(key)
	if !holds || len(changed) > 0 || made.Stderr != "warning\n" {
		t.Fatalf("%+v, %q", made, changed)
	}
	write(t, dir, "a.cu", "source")
	if _, holds, _ := c.find(key); !holds {
		t.Error("a file with the same content counts as changed")
	}
	write(t, dir, "a.cu", "SOURCE")
	last, holds, changed := c.find(key)
	if holds || !slices.Equal(changed, []string{"a.cu"}) {
		t.Errorf("of another source: %v, %q", holds, changed)
	}
	if last == nil || last.Peaks["ptxas"] != 7 {
		t.Errorf("the last time: %+v", last)
	}
	write(t, dir, "a.cu", "source")
	write(t, dir, "absent.h", "")
	if _, holds, changed := c.find(key); holds || len(changed) != 1 {
		t.Errorf("with a header that came: %v, %q", holds, changed)
	}
	another, _ := commandKey(nil, dir, Base{}, nil, nil)
	if made, _, _ := c.find(another); made != nil {
		t.Error("another command is remembered")
	}
}

// A file that is damaged is forgotten, wherever the damage is.
func TestFindDamaged(t *testing.T) {
	c, key, _ := remembered(t)
	whole, err := os.ReadFile(c.Store.Command(key))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 7 {
		text := slices.Clone(whole)
		text[at] ^= 0x55
		if err := os.WriteFile(c.Store.Command(key), text, 0o666); err != nil {
			t.Fatal(err)
		}
		if made, holds, _ := c.find(key); holds && (made.Stderr != "warning\n" || made.Outputs[0].Path != "out/a.o" || string(made.Files[0].Text) != "a.o : a.cu\n") {
			t.Fatalf("damaged at %d: %+v", at, made)
		}
	}
}

// Outputs are whole, or not there; an older one goes.
func TestPlace(t *testing.T) {
	c, key, dir := remembered(t)
	made, _, _ := c.find(key)
	if err := c.Place(made); err == nil {
		t.Error("a folder that is not there is no error")
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "out/a.o", "older and longer")
	if err := c.Place(made); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "out/a.o")); string(text) != "object" {
		t.Errorf("a.o holds %q", text)
	}
	made.Outputs[0].Digest[0] ^= 1
	if err := c.Place(made); err == nil {
		t.Error("content that is gone is no error")
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "out"))
	if len(entries) != 2 {
		t.Errorf("out has %v", entries)
	}
}

// A collection takes what is remembered with its outputs, the longest unused first; one that was
// brought stays. While it runs, who brings a command gets it whole or not at all.
func TestCollection(t *testing.T) {
	c, key, dir := remembered(t)
	ctx := t.Context()
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o777); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Store.Stats(ctx); err != nil || st.Commands != 1 || st.Records != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	age := func() {
		old := time.Now().Add(-2 * time.Hour)
		filepath.WalkDir(c.Store.Folder(), func(name string, d fs.DirEntry, err error) error { return os.Chtimes(name, old, old) })
	}
	age()
	c.Store.UsedCommand(key)
	if res, err := c.Store.GC(ctx, 0, time.Hour); err != nil || res.Records != 1 || res.Blobs != 0 || res.Commands != 0 {
		t.Errorf("a command that was used: %+v, %v", res, err)
	}
	if made, holds, _ := c.find(key); !holds || c.Place(made) != nil {
		t.Error("it does not come back")
	}
	made, _, _ := c.find(key)
	age()
	brought := make(chan string)
	go func() {
		defer close(brought)
		for {
			found, holds, _ := c.find(key)
			if !holds || c.Place(found) != nil {
				return
			}
			text, _ := os.ReadFile(filepath.Join(dir, "out/a.o"))
			brought <- string(text)
		}
	}()
	if text := <-brought; text != "object" {
		t.Errorf("it brings %q", text)
	}
	done := make(chan error, 1)
	go func() {
		res, err := c.Store.GC(ctx, 1, 0)
		if err == nil && (res.Records != 1 || res.Blobs != 1 || res.Commands != 1 || res.Bytes != 0) {
			err = fmt.Errorf("%+v", res)
		}
		done <- err
	}()
	for text := range brought {
		if text != "object" {
			t.Errorf("it brings %q", text)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Keep(key, nil, made); err != nil {
		t.Errorf("after a collection: %v", err)
	}
}

// A file that another kbuild, or one that was killed, has left is removed when it is old.
func TestCollectionOfLeftovers(t *testing.T) {
	c, key, _ := remembered(t)
	another, _ := commandKey([]string{"x"}, "/", Base{}, nil, nil)
	other := c.Store.Command(another)
	if err := os.MkdirAll(filepath.Dir(other), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	for want, back := range []time.Duration{0, -2 * time.Hour} {
		then := time.Now().Add(back)
		if err := os.Chtimes(other, then, then); err != nil {
			t.Fatal(err)
		}
		if res, err := c.Store.GC(t.Context(), 0, 0); err != nil || res.Commands != want {
			t.Errorf("%v old: %+v, %v", -back, res, err)
		}
	}
	if _, err := os.Stat(c.Store.Command(key)); err != nil {
		t.Error(err)
	}
}
