package reapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

func record(t *testing.T, command string, header string, outputs ...[]byte) *cache.Record {
	fields := []cache.Field{{Name: "argv", Value: command}}
	r := &cache.Record{Command: cache.KeyOf(fields), Fields: fields, Discovered: []cache.FileDigest{{Path: "a.h", Digest: sha256.Sum256([]byte(header))}}}
	for i, b := range outputs {
		r.Outputs = append(r.Outputs, cache.Output{Path: fmt.Sprintf("out/%d", i), Digest: sha256.Sum256(b), Size: int64(len(b)), Exec: i == 1})
	}
	return r
}

func opener(outputs ...[]byte) func(cache.Output) (io.ReadCloser, error) {
	return func(o cache.Output) (io.ReadCloser, error) {
		for _, b := range outputs {
			if sha256.Sum256(b) == o.Digest {
				return io.NopCloser(bytes.NewReader(b)), nil
			}
		}
		return nil, os.ErrNotExist
	}
}

// What is stored comes back, small and large, and is not sent twice.
func TestClient(t *testing.T) {
	c, err := Open(os.Getenv("REAPI"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	can, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", can)
	salt := fmt.Sprint(os.Getpid())
	small, large, empty := []byte("small"+salt), bytes.Repeat([]byte("large"+salt), 1<<20), []byte{}
	r := record(t, "one"+salt, "1", small, large, empty)
	if all, err := c.Records(ctx, r.Command); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	sent, err := c.Store(ctx, r, opener(small, large, empty))
	if err != nil {
		t.Fatal(err)
	}
	t.Log("sent", sent)
	again, err := c.Store(ctx, r, opener())
	if err != nil || again != 0 {
		t.Fatal("again", again, err)
	}
	r2 := record(t, "one"+salt, "2", small)
	if _, err := c.Store(ctx, r2, opener(small)); err != nil {
		t.Fatal(err)
	}
	all, err := c.Records(ctx, r.Command)
	if err != nil || len(all) != 2 || all[0].ID() != r2.ID() || all[1].ID() != r.ID() {
		t.Fatal(all, err)
	}
	if ok, err := c.Has(ctx, all[1]); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i, want := range [][]byte{small, large, empty} {
		var b bytes.Buffer
		if err := c.Fetch(ctx, r.Outputs[i], &b); err != nil || !slices.Equal(b.Bytes(), want) {
			t.Fatal(i, b.Len(), err)
		}
	}
	gone := record(t, "x", "", []byte("never stored"+salt))
	if err := c.Fetch(ctx, gone.Outputs[0], io.Discard); !errors.Is(err, ErrMiss) {
		t.Fatal(err)
	}
}
