package reapi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
)

// talk sends requests to Serve one by one, and gives the answers.
func talk(t *testing.T, requests ...remote.Request) (answers []remote.Answer) {
	t.Helper()
	in, kbuild := io.Pipe()
	back, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(in, out)
		out.Close()
	}()
	enc, dec := json.NewEncoder(kbuild), json.NewDecoder(back)
	for i, r := range requests {
		r.ID = i + 1
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
		var a remote.Answer
		for a.ID != r.ID || a.Moves {
			a = remote.Answer{}
			if err := dec.Decode(&a); err != nil {
				t.Fatal(err)
			}
		}
		answers = append(answers, a)
	}
	kbuild.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return answers
}

// A store that cannot keep what comes is no fault of the server.
func TestServeUnwritable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/cas/") {
			io.WriteString(w, "text")
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	if _, err := disk.Open(dir); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "v2", "tmp")
	if err := errors.Join(os.Remove(tmp), os.WriteFile(tmp, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	o, wrong := cache.Output{Path: "a", Digest: sha256.Sum256([]byte("text")), Size: 4}, cache.Output{Path: "a", Digest: cache.Digest{1}, Size: 4}
	hello := remote.Request{Operation: remote.Hello, Protocol: remote.Protocol, Address: server.URL, Dir: dir}
	if a := talk(t, hello, remote.Request{Operation: remote.Fetch, Output: &o})[1]; !a.Local || !strings.Contains(a.Error, dir) || a.Found {
		t.Errorf("%+v", a)
	}
	if a := talk(t, remote.Request{Operation: remote.Hello, Protocol: remote.Protocol, Address: server.URL, Dir: t.TempDir()},
		remote.Request{Operation: remote.Fetch, Output: &wrong})[1]; a.Local || a.Error == "" {
		t.Errorf("wrong content: %+v", a)
	}
}

// Servers answer in their own ways; kbuild hears what matters of them.
func TestServe(t *testing.T) {
	status := http.StatusNotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusForbidden)
		case status == http.StatusFound:
			http.Redirect(w, r, "http://localhost:1/elsewhere", status)
		default:
			w.WriteHeader(status)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	store, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := record("key", "")
	if err := store.Keep(r); err != nil {
		t.Fatal(err)
	}
	hello := remote.Request{Operation: remote.Hello, Protocol: remote.Protocol, Address: server.URL, Dir: dir}
	all := talk(t, hello, remote.Request{Operation: remote.Records, Command: r.Command}, remote.Request{Operation: remote.Store, Record: r}, remote.Request{Operation: "dance"})
	if all[0].Error != "" || all[0].Server != "HTTP" || all[1].Error != "" || len(all[1].Records) != 0 {
		t.Errorf("of a server without anything: %+v", all[:2])
	}
	if a := all[2]; !a.Denied || a.Error != "the server answers 403 Forbidden" {
		t.Errorf("of a server that takes nothing: %+v", a)
	}
	if a := all[3]; !strings.Contains(a.Error, "does not know") {
		t.Errorf("of no operation: %+v", a)
	}
	status = 429
	if a := talk(t, hello)[0]; !a.Busy || a.Error == "" {
		t.Errorf("of a server that is asked too much: %+v", a)
	}
	for code, want := range map[int]string{500: "the server answers 500 Internal Server Error", 401: "the server answers 401 Unauthorized", 302: "the server answers 302 Found"} {
		status = code
		if a := talk(t, hello)[0]; a.Error != want || a.Busy {
			t.Errorf("%d: %+v", code, a)
		}
	}
	old := hello
	old.Protocol = 0
	if a := talk(t, old)[0]; a.Error != "kbuild-remote is of another version than kbuild" {
		t.Errorf("of another version: %+v", a)
	}
}
