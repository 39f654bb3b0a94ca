package reapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache"
)

func noEnv(string) string { return "" }

// run is in every key: a server that runs already may have what an earlier test has stored.
var run = uuid()

func record(command, header string, outputs ...[]byte) *cache.Record {
	fields := []cache.Field{{Name: "argv", Value: command + run}}
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

// eachServer runs a test with real servers: one that knows what it keeps, and one that keeps what
// it is given. The variable KBUILD_TEST_SERVERS may have the addresses of others that run already.
func eachServer(t *testing.T, test func(t *testing.T, c *Client)) {
	servers := map[string]func(testing.TB) string{
		"BuildGrid": tooltest.BuildGrid,
		"nginx":     func(t testing.TB) string { address, _ := tooltest.Nginx(t); return address + "/team" },
	}
	for _, address := range strings.Fields(os.Getenv("KBUILD_TEST_SERVERS")) {
		servers[address] = func(testing.TB) string { return address }
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Open(start(t), noEnv)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if can, err := c.Connect(t.Context()); err != nil || !can.Updates {
				t.Fatalf("%+v, %v", can, err)
			}
			test(t, c)
		})
	}
}

// What is stored comes back, in one message and as a stream, and is not sent twice. Of two records
// with one key both come back.
func TestStored(t *testing.T) {
	eachServer(t, func(t *testing.T, c *Client) {
		small, large, empty := []byte("small"), bytes.Repeat([]byte("large"), 1<<20), []byte{}
		first, second := record(t.Name(), "1", small, large, empty), record(t.Name(), "2", small)
		if all, _, err := c.Records(t.Context(), first.Command); err != nil || len(all) != 0 {
			t.Fatalf("before: %v, %v", all, err)
		}
		for i, store := range []struct {
			r    *cache.Record
			from [][]byte
			sent bool
		}{{first, [][]byte{small, large, empty}, true}, {first, nil, false}, {second, nil, true}} {
			if sent, err := c.Store(t.Context(), store.r, opener(store.from...)); err != nil || sent > 0 != store.sent {
				t.Fatalf("store %d: %d bytes were sent, %v", i, sent, err)
			}
		}
		all, _, err := c.Records(t.Context(), first.Command)
		if diff := cmp.Diff([]*cache.Record{second, first}, all); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
		for i, want := range [][]byte{small, large, empty} {
			var b bytes.Buffer
			if _, err := c.Fetch(t.Context(), first.Outputs[i], t.TempDir(), &b); err != nil || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("output %d comes back with %d bytes, %v", i, b.Len(), err)
			}
		}
	})
}

// What was never stored is a miss: a key, a record, an output, small or large.
func TestMiss(t *testing.T) {
	eachServer(t, func(t *testing.T, c *Client) {
		r := record("never", "", []byte("never stored"), bytes.Repeat([]byte("never"), 1<<20))
		if ok, err := c.Has(t.Context(), r); ok || err != nil {
			t.Errorf("the server has a record that was never stored: %v, %v", ok, err)
		}
		for _, o := range r.Outputs {
			if _, err := c.Fetch(t.Context(), o, t.TempDir(), io.Discard); !errors.Is(err, ErrMiss) {
				t.Errorf("%s: %v", o.Path, err)
			}
		}
	})
}

// A file that is not what the record says is not stored, and neither is the record.
func TestChangedMeanwhile(t *testing.T) {
	eachServer(t, func(t *testing.T, c *Client) {
		for name, now := range map[string][]byte{"shorter": []byte("x"), "longer": bytes.Repeat([]byte("y"), 7<<20), "of another content": bytes.Repeat([]byte("z"), 6<<20)} {
			r := record(name, "", bytes.Repeat([]byte("w"), 6<<20))
			if _, err := c.Store(t.Context(), r, func(cache.Output) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(now)), nil }); err == nil {
				t.Errorf("a file that is now %s is stored", name)
			}
			if all, _, err := c.Records(t.Context(), r.Command); len(all) != 0 || err != nil {
				t.Errorf("%s: %d records, %v", name, len(all), err)
			}
			if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); !errors.Is(err, ErrMiss) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A server that verifies nothing may hold anything. None of it counts, and storing the record again
// heals it.
func TestDamage(t *testing.T) {
	address, data := tooltest.Nginx(t)
	content := []byte("content")
	for name, damage := range map[string]func(b []byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"longer":  func(b []byte) []byte { return append(b, 'x') },
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"empty":   func([]byte) []byte { return nil },
	} {
		c, err := Open(address+"/"+name, noEnv)
		if err != nil {
			t.Fatal(err)
		}
		r := record(name, "", content)
		if _, err := c.Store(t.Context(), r, opener(content)); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"ac", "cas"} {
			files, _ := filepath.Glob(filepath.Join(data, name, kind, "*"))
			if len(files) < 2 {
				t.Fatalf("%d files in %s", len(files), kind)
			}
			for _, f := range files {
				b, _ := os.ReadFile(f)
				if len(b) == 0 {
					continue // a folder without files
				}
				if err := os.WriteFile(f, damage(b), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if all, _, err := c.Records(t.Context(), r.Command); len(all) != 0 && kind == "ac" && !cmp.Equal(all[0], r) {
				t.Errorf("%s %s: %v, %v", name, kind, all, err)
			}
			var b bytes.Buffer
			if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), &b); err == nil && !bytes.Equal(b.Bytes(), content) {
				t.Errorf("%s %s: the content is %q", name, kind, b.Bytes())
			}
			if _, err := c.Store(t.Context(), r, opener(content)); err != nil {
				t.Errorf("%s %s: %v", name, kind, err)
			}
			if all, _, err := c.Records(t.Context(), r.Command); err != nil || !cmp.Equal(all, []*cache.Record{r}) {
				t.Errorf("%s %s: not healed: %v, %v", name, kind, all, err)
			}
			if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); err != nil {
				t.Errorf("%s %s: not healed: %v", name, kind, err)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	secret := func(name string) string { return map[string]string{envToken: "/secret"}[name] }
	for address, want := range map[string]string{
		"grpc://cache:8980/team": "", "grpcs://cache": "", "https://cache/a/b": "", "http://[::1]:80": "",
		"cache:8980":         `"cache:8980" is no address of a remote cache: write grpcs://HOST:PORT/INSTANCE or https://HOST/PATH`,
		"https://me:pw@host": `"https://me:xxxxx@host" names a user, and an address is for all to read: say who asks by KBUILD_REMOTE_PASSWORD_FILE`,
		"ftp://host":         `"ftp://host": a remote cache is reached by grpc, grpcs, http or https`,
	} {
		c, err := Open(address, noEnv)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %s", address, got)
		}
		if err == nil {
			c.Close()
		}
	}
	for address, refused := range map[string]bool{"grpc://cache:1": true, "http://cache": true, "grpc://localhost:1": false, "https://cache": false} {
		if _, err := Open(address, secret); err != nil != refused {
			t.Errorf("credentials for %s: %v", address, err)
		}
	}
}
