package reapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func noise(n int) []byte {
	b, r := make([]byte, n), rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Content goes compressed both ways where the server offers it, in whatever frames it comes, and
// what is counted is what was sent.
func TestCompressed(t *testing.T) {
	large, random, small := bytes.Repeat([]byte("text "), 1<<20), noise(1<<20), []byte("small")
	for name, f := range map[string]*fake{
		"bazel-remote": {zstd: true, message: 1 << 20, committed: func(raw, wire int) int64 { return int64(wire) }, frames: func(data []byte) (b []byte) {
			b = slices.Clone(skippable)
			for part := range slices.Chunk(data, 1<<20) { // it stores so
				b = append(b, frame(part)...)
			}
			return b
		}},
		"Buildbarn": {zstd: true, message: 32, committed: func(raw, wire int) int64 { return -1 }, frames: func(data []byte) []byte {
			var b bytes.Buffer
			e, _ := zstd.NewWriter(&b, zstd.WithWindowSize(8<<20)) // also for content of a few bytes
			e.Write(data)
			e.Close()
			return b.Bytes()
		}},
		"others": {zstd: true, message: 1000, committed: func(raw, wire int) int64 { return int64(raw) }, frames: func(data []byte) []byte { return frame(data) }},
	} {
		c := f.serve(t, 4<<20)
		r := record(name, "", large, random, small)
		sent, err := c.Store(t.Context(), r, opener(large, random, small))
		if err != nil || sent < 1<<20 || sent > 1<<20+16<<10 {
			t.Errorf("%s: %d bytes were sent, %v", name, sent, err)
		}
		slices.Sort(f.calls)
		if diff := cmp.Diff([]string{"batch of 7", "write stream, compressed true", "write stream, compressed true"}, f.calls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for i, want := range [][]byte{large, random, small} {
			var b bytes.Buffer
			wire, err := c.Fetch(t.Context(), r.Outputs[i], t.TempDir(), &b)
			if err != nil || !bytes.Equal(b.Bytes(), want) || i == 0 && wire > 64<<10 || i == 2 && wire != 5 {
				t.Errorf("%s: output %d comes back with %d bytes, %d on the wire, %v", name, i, b.Len(), wire, err)
			}
		}
	}
}

// A server may have a blob already, and say so in the middle of it.
func TestStopsAtFirst(t *testing.T) {
	f := &fake{zstd: true, stops: true, frames: func(data []byte) []byte { return frame(data) }}
	c := f.serve(t, 4<<20)
	data := noise(3 << 20)
	f.keep(BlobOf(data).Digest.String(), data)
	for _, compressed := range []bool{false, true} {
		if _, err := c.s.(*grpcServer).writeStream(t.Context(), BlobOf(data), bytes.NewReader(data), compressed); err != nil {
			t.Errorf("compressed %v: %v", compressed, err)
		}
	}
}

// A server that says that it does zstd, but does not or not within bounds, is spoken to without.
func TestZstdRefused(t *testing.T) {
	data := bytes.Repeat([]byte("text "), 1<<20)
	wide := func(data []byte) []byte {
		var b bytes.Buffer
		e, _ := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20))
		e.Write(data)
		e.Close()
		return b.Bytes()
	}
	for name, f := range map[string]*fake{"refuses": {zstd: true, message: 1 << 20}, "too wide a window": {zstd: true, message: 1 << 20, frames: wide}} {
		c := f.serve(t, 4<<20)
		if f.frames != nil {
			f.keep(BlobOf(data).Digest.String(), data)
		}
		r := record(name, "", data)
		if _, err := c.Store(t.Context(), r, opener(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 {
			var b bytes.Buffer
			if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), &b); err != nil || !bytes.Equal(b.Bytes(), data) {
				t.Errorf("%s: %d bytes, %v", name, b.Len(), err)
			}
		}
		if n := strings.Count(strings.Join(f.calls, "\n"), "compressed true"); n > 1 {
			t.Errorf("%s: asked %d times: %q", name, n, f.calls)
		}
	}
}

// Frames can promise anything. What comes out is the blob or an error, and never more than the
// blob.
func TestDamagedFrames(t *testing.T) {
	data := bytes.Repeat([]byte("text "), 1000)
	for name, frames := range map[string]func([]byte) []byte{
		"cut":      func([]byte) []byte { b := frame(data); return b[:len(b)-5] },
		"longer":   func([]byte) []byte { return append(frame(data), "rest"...) },
		"no frame": func([]byte) []byte { return data },
		"nothing":  func([]byte) []byte { return nil },
		"another":  func([]byte) []byte { return frame([]byte(strings.ToUpper(string(data)))) },
		"a bomb":   func([]byte) []byte { return bytes.Repeat(frame(make([]byte, 64<<20)), 1000) },
		"twice":    func([]byte) []byte { return append(frame(data), frame(data)...) },
	} {
		f := &fake{zstd: true, message: 1 << 20, frames: frames}
		c := f.serve(t, 4<<20)
		f.keep(BlobOf(data).Digest.String(), data)
		var b bytes.Buffer
		if _, err := c.Fetch(t.Context(), record(name, "", data).Outputs[0], t.TempDir(), &b); !errors.Is(err, ErrWrong) || b.Len() > len(data) || !strings.Contains(err.Error(), BlobOf(data).Digest.String()) {
			t.Errorf("%s: %d bytes, %v", name, b.Len(), err)
		}
	}
}

// A web server compresses what it sends if it knows how. It is never sent anything compressed: one
// that does not know would keep it so.
func TestCompressedHTTP(t *testing.T) {
	blobs := map[string][]byte{}
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := blobs[r.URL.Path]
		switch {
		case r.Method == http.MethodPut:
			blobs[r.URL.Path], _ = io.ReadAll(r.Body)
			sent = append(sent, r.Header.Get("Content-Encoding"))
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet && r.Header.Get("Accept-Encoding") == "zstd":
			w.Header().Set("Content-Encoding", "zstd")
			w.Write(append(slices.Clone(skippable), frame(data)...))
		default:
			w.Write(data)
		}
	}))
	defer server.Close()
	c, err := Open(server.URL, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	large, small := bytes.Repeat([]byte("text "), 1<<20), []byte("small")
	r := record("http", "", large, small)
	if n, err := c.Store(t.Context(), r, opener(large, small)); err != nil || n < int64(len(large)) || strings.Join(sent, "") != "" {
		t.Errorf("%d bytes were sent, encoded as %q, %v", n, sent, err)
	}
	for i, want := range [][]byte{large, small} {
		var b bytes.Buffer
		wire, err := c.Fetch(t.Context(), r.Outputs[i], t.TempDir(), &b)
		if err != nil || !bytes.Equal(b.Bytes(), want) || wire > 64<<10 {
			t.Errorf("output %d comes back with %d bytes, %d on the wire, %v", i, b.Len(), wire, err)
		}
	}
	blobs["/cas/"+r.Outputs[0].Digest.String()] = []byte("of another content")
	if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); !errors.Is(err, ErrWrong) {
		t.Errorf("another content: %v", err)
	}
}

// Content that the check refuses ends without the end of its frame.
func TestEncodeChecks(t *testing.T) {
	bad := errors.New("bad")
	var b bytes.Buffer
	if err := encode(&b, bytes.NewReader(noise(2<<20)), func() error { return bad }); err != bad {
		t.Fatal(err)
	}
	if err := decode(io.Discard, &b, Blob{Size: 2 << 20}); !errors.Is(err, ErrWrong) {
		t.Errorf("it decodes: %v", err)
	}
	b.Reset()
	if err := decode(&b, bytes.NewReader(frame(make([]byte, 8<<20))), Blob{Size: 10}); err != nil || b.Len() != 11 {
		t.Errorf("of a frame that is larger than what it is of: %d bytes, %v", b.Len(), err)
	}
	if err := decode(io.Discard, readerFunc(func([]byte) (int, error) { return 0, context.Canceled }), Blob{Size: 1}); err != context.Canceled {
		t.Errorf("of the source: %v", err)
	}
}
