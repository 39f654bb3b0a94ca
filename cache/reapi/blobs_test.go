package reapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Small blobs go in as few messages as the server takes.
func TestBatches(t *testing.T) {
	f := &fake{}
	c := f.serve(t, 4<<20)
	var parts [][]byte
	for i := range 40 {
		parts = append(parts, append(noise(200<<10), byte(i)))
	}
	r := record("many", "", parts...)
	if _, err := c.Store(t.Context(), r, opener(parts...)); err != nil {
		t.Fatal(err)
	}
	if len(f.calls) != 3 { // 7.8 MiB in messages of 3
		t.Errorf("%q", f.calls)
	}
	for _, o := range r.Outputs {
		if _, err := c.Fetch(t.Context(), o, t.TempDir(), io.Discard); err != nil {
			t.Error(err)
		}
	}
}

// A server that takes less than it says is sent streams.
func TestMessageTooLarge(t *testing.T) {
	f := &fake{message: 1 << 20}
	c := f.serve(t, 300<<10)
	var parts [][]byte
	for i := range 10 {
		parts = append(parts, append(noise(100<<10), byte(i)))
	}
	r := record("too large", "", parts...)
	if _, err := c.Store(t.Context(), r, opener(parts...)); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Outputs {
		if _, err := c.Fetch(t.Context(), o, t.TempDir(), io.Discard); err != nil {
			t.Error(err)
		}
	}
	f = &fake{message: 1 << 20}
	c = f.serve(t, 100<<10)
	data := noise(200 << 10)
	r = record("one", "", data)
	if _, err := c.Store(t.Context(), r, opener(data)); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(f.calls, "write stream, compressed false") {
		t.Errorf("in place of a stream: %q", f.calls)
	}
}

// Questions after many blobs are several.
func TestMissingInParts(t *testing.T) {
	f := &fake{}
	c := f.serve(t, 300<<10) // some 4,000 digests
	blobs := make([]Blob, 25_000)
	for i := range blobs {
		blobs[i] = BlobOf([]byte(fmt.Sprint(i)))
	}
	missing, err := c.s.missing(t.Context(), blobs)
	if err != nil || !slices.Equal(missing, blobs) {
		t.Errorf("%d of %d, %v", len(missing), len(blobs), err)
	}
	if want := []int{4000, 4000, 4000, 4000, 4000, 4000, 1000}; !slices.Equal(f.digests, want) {
		t.Errorf("asked for %d", f.digests)
	}
}

// What a server says that it does not take is not sent.
func TestMaxBlob(t *testing.T) {
	f := &fake{maxBlob: 1 << 20, message: 1 << 20}
	c := f.serve(t, 4<<20)
	data := noise(1<<20 + 1)
	_, err := c.Store(t.Context(), record("too large a blob", "", data), opener(data))
	if err == nil || !strings.Contains(err.Error(), "takes blobs of 1048576 bytes at most") || slices.Contains(f.calls, "write stream, compressed false") {
		t.Errorf("%v, %q", err, f.calls)
	}
}

// What is empty need not be on a server, and a record without files has an entry that is not empty.
func TestEmpty(t *testing.T) {
	f := &fake{}
	c := f.serve(t, 4<<20)
	r := record("empty", "", []byte{})
	if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); err != nil {
		t.Error(err)
	}
	r = record("nothing", "")
	if _, err := c.Store(t.Context(), r, opener()); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.entries {
		if e.GetExecutionMetadata().GetWorker() == "" && len(e.OutputFiles) == 0 {
			t.Error("an entry of no bytes, which bazel-remote refuses")
		}
	}
}

// What a server says that it has, and did not give, is sent again.
func TestSaysItHas(t *testing.T) {
	f := &fake{}
	c := f.serve(t, 4<<20)
	data := []byte("content")
	r := record("lost", "", data)
	f.lost = r.Outputs[0].Digest.String()
	if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); err == nil {
		t.Fatal("it came")
	}
	if _, err := c.Store(t.Context(), r, opener(data)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); err != nil {
		t.Error(err)
	}
}

// A web server closes connections that have been used for long, and may do so just when the next
// request comes.
func TestConnectionClosed(t *testing.T) {
	var mu sync.Mutex
	used := map[string]bool{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		again := used[r.RemoteAddr]
		used[r.RemoteAddr] = true
		mu.Unlock()
		if again && r.Method == http.MethodPut {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
			return
		}
		io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodPut {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	server.Start()
	defer server.Close()
	c, err := Open(server.URL, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := []byte("content")
	if _, err := c.Store(t.Context(), record("closed", "", data), opener(data)); err != nil {
		t.Error(err)
	}
}
