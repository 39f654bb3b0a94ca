package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
)

// The test binary is kbuild-remote too, where it has that name. Its server is a store in the folder
// $SERVER, with a line for each connection in the file connections. Where there is no folder,
// nobody listens.

// pretendRemote answers as kbuild-remote does.
func pretendRemote() {
	var mu sync.Mutex
	enc, dec := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	s := &pretendServer{dir: os.Getenv("SERVER")}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		var r remote.Request
		if dec.Decode(&r) != nil {
			return
		}
		answer := func() {
			a, err := s.do(r)
			if err != nil {
				a = remote.Answer{Error: err.Error()}
			}
			a.ID = r.ID
			mu.Lock()
			defer mu.Unlock()
			enc.Encode(a)
		}
		if r.Operation == remote.Hello {
			answer()
		} else if r.Operation != remote.Cancel {
			all.Go(answer)
		}
	}
}

type pretendServer struct {
	dir          string
	store, local *disk.Store
}

func (s *pretendServer) do(r remote.Request) (a remote.Answer, err error) {
	ctx := context.Background()
	switch r.Operation {
	case remote.Hello:
		return remote.Answer{Server: "pretended"}, s.hello(r)
	case remote.Records:
		a.Records, err = s.store.Records(ctx, r.Command)
	case remote.Has:
		a.Found = !slices.ContainsFunc(r.Record.Outputs, func(o cache.Output) bool { return !o.Unkept && !s.has(o) })
	case remote.Fetch:
		if a.Found = s.has(*r.Output); a.Found {
			a.Bytes, err = r.Output.Size, give(ctx, s.store, s.local, *r.Output)
		}
	case remote.Store:
		for _, o := range r.Record.Outputs {
			if !o.Unkept {
				if err := give(ctx, s.local, s.store, o); err != nil {
					return a, err
				}
				a.Bytes += o.Size
			}
		}
		err = s.store.Keep(r.Record)
	}
	return a, err
}

func (s *pretendServer) hello(r remote.Request) (err error) {
	if _, err := os.Stat(s.dir); err != nil {
		return fmt.Errorf("nobody listens")
	}
	if s.store, err = disk.Open(s.dir); err != nil {
		return err
	}
	if s.local, err = disk.Open(r.Dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "connections"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s read only %v token %q\n", r.Address, r.ReadOnly, os.Getenv("KBUILD_REMOTE_TOKEN_FILE"))
	return err
}

func (s *pretendServer) has(o cache.Output) bool {
	c, err := s.store.Content(o)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func give(ctx context.Context, from, to *disk.Store, o cache.Output) error {
	c, err := from.Content(o)
	if err != nil {
		return err
	}
	defer c.Close()
	return to.Receive(ctx, o, c)
}

// server is a remote cache for the builds of a project, empty at first.
type server struct {
	t   *testing.T
	dir string
}

func (p *project) server() *server {
	p.t.Helper()
	s := &server{p.t, filepath.Join(p.t.TempDir(), "server")}
	if err := os.Mkdir(s.dir, 0o777); err != nil {
		p.t.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(p.bin, "kbuild-remote"))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Setenv("SERVER", s.dir)
	return s
}

// connections are those since they were last asked for.
func (s *server) connections() string {
	s.t.Helper()
	name := filepath.Join(s.dir, "connections")
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	os.Remove(name)
	return strings.TrimSuffix(string(text), "\n")
}
