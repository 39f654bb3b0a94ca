package reapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
)

// uploads is the number of records that are sent concurrently. Each takes a dozen round trips: with
// few at a time, the end of a build waits for a distant server. With very many, uploads take
// bandwidth from the downloads that a build waits for.
const uploads = 16

// Serve answers the requests of kbuild until in ends.
func Serve(in io.Reader, out io.Writer) error {
	s := &session{enc: json.NewEncoder(out), cancels: map[int]context.CancelFunc{}, slots: make(chan struct{}, uploads)}
	dec := json.NewDecoder(in)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		var r remote.Request
		if err := dec.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.handle(ctx, r)
	}
}

// session is the connection to one kbuild.
type session struct {
	client *Client
	store  *disk.Store
	slots  chan struct{}

	mu      sync.Mutex
	enc     *json.Encoder
	cancels map[int]context.CancelFunc
}

func (s *session) handle(ctx context.Context, r remote.Request) {
	switch r.Operation {
	case remote.Cancel:
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.cancels[r.Cancels]; cancel != nil {
			cancel()
		}
		return
	case remote.Hello: // before all others
		s.answer(r, s.hello(ctx, r))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.cancels[r.ID] = cancel
	s.mu.Unlock()
	go func() {
		defer cancel()
		a := s.do(ctx, r)
		s.answer(r, a)
	}()
}

func (s *session) answer(r remote.Request, a remote.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cancels, r.ID)
	a.ID = r.ID
	s.enc.Encode(a) // a failed write means that kbuild has ended
}

func (s *session) hello(ctx context.Context, r remote.Request) (a remote.Answer) {
	if r.Protocol != remote.Protocol {
		return failed(fmt.Errorf("kbuild-remote is of another version than kbuild"))
	}
	var err error
	if s.store, err = disk.Open(r.Dir); err != nil {
		return failed(err)
	}
	if s.client, err = Open(r.Address, os.Getenv); err != nil {
		return failed(err)
	}
	s.client.pulse.limit = r.Patience
	can, err := s.client.Connect(ctx)
	if err != nil {
		return failed(err)
	}
	return remote.Answer{Server: can.Server, ReadOnly: !can.Updates, Executes: can.Executes}
}

func (s *session) do(ctx context.Context, r remote.Request) (a remote.Answer) {
	var err error
	switch r.Operation {
	case remote.Records:
		a.Records, a.Bytes, err = s.client.Records(ctx, r.Command)
	case remote.Has:
		a.Found, err = s.client.Has(ctx, r.Record)
	case remote.Fetch:
		a.Found, a.Bytes, err = s.fetch(ctx, r.ID, *r.Output)
	case remote.Store:
		s.slots <- struct{}{}
		a.Bytes, err = s.client.Store(ctx, r.Record, func(o cache.Output) (io.ReadCloser, error) {
			content, err := s.store.Content(o)
			return movingReader{content, &moving{s: s, id: r.ID}}, err
		})
		<-s.slots
	case remote.Execute:
		a.Ran, err = s.client.Execute(ctx, r.Run)
	default:
		err = fmt.Errorf("kbuild-remote does not know %q", r.Operation)
	}
	if err != nil {
		bytes := a.Bytes
		a = failed(err)
		a.Bytes = bytes
	}
	return a
}

// fetch stores an output in the local store. The client and the store both check its digest. It
// returns the number of bytes received.
func (s *session) fetch(ctx context.Context, id int, o cache.Output) (found bool, wire int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		var err error
		wire, err = s.client.Fetch(ctx, o, s.store.Folder(), movingWriter{pw, &moving{s: s, id: id}})
		pw.CloseWithError(err)
	}()
	err = s.store.Receive(ctx, o, pr)
	pr.CloseWithError(errors.New("nobody reads"))
	cancel()
	<-fetched
	if errors.Is(err, ErrMiss) {
		return false, wire, nil
	}
	return err == nil, wire, err
}

// moving notifies kbuild that the content of a request is being transferred.
type moving struct {
	s    *session
	id   int
	told time.Time
}

const often = 100 * time.Millisecond

func (m *moving) moved() {
	now := time.Now()
	if now.Sub(m.told) < often {
		return
	}
	m.told = now
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.enc.Encode(remote.Answer{ID: m.id, Moves: true})
}

// progress is told of each transfer of content.
type progress interface{ moved() }

// movingReader reports each read.
type movingReader struct {
	io.ReadCloser
	to progress
}

func (m movingReader) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.to.moved()
	return n, err
}

// movingWriter reports each write.
type movingWriter struct {
	io.Writer
	to progress
}

func (m movingWriter) Write(p []byte) (int, error) {
	m.to.moved()
	return m.Writer.Write(p)
}

func failed(err error) remote.Answer {
	var web StatusError
	code := status.Code(err)
	denied := code == codes.PermissionDenied || code == codes.Unauthenticated || errors.As(err, &web) && (web.Code == 401 || web.Code == 403)
	return remote.Answer{Error: err.Error(), Denied: denied, Fatal: errors.Is(err, errFatal), Local: errors.As(err, new(disk.WriteError)) || errors.Is(err, errRoom),
		Busy: code == codes.ResourceExhausted || web.Code == 429 || web.Code == 503}
}
