package reapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// httpServer is a web server with Bazel's layout: BASE/ac/HASH holds entries and BASE/cas/HASH blobs, both by GET and PUT. bazel-remote knows
// what they are; nginx and the like keep what they are given.
type httpServer struct {
	base   string
	client *http.Client
	header func(ctx context.Context, req *http.Request) error
}

// maxEntry bounds the text of an entry.
const maxEntry = 4 << 20

func newHTTP(base string, transport *http.Transport, header func(context.Context, *http.Request) error) *httpServer {
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 64 // the default of 2 opens a connection for nearly every blob
	transport.ResponseHeaderTimeout = call
	transport.ExpectContinueTimeout = time.Second // so that a server refuses before the content is sent
	transport.DialContext = (&net.Dialer{Timeout: call}).DialContext
	return &httpServer{strings.TrimSuffix(base, "/"), &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // another host must not get the credentials, nor a PUT become a GET
	}}, header}
}

// Close implements io.Closer.
func (s *httpServer) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// connect asks for the entry of nothing: whatever the answer says, somebody is there who lets us ask.
func (s *httpServer) connect(ctx context.Context) (Abilities, error) {
	key, _ := action("kbuild")
	if _, err := s.get(ctx, key); err != nil && err != ErrMiss {
		return Abilities{}, err
	}
	return Abilities{Server: "HTTP", Updates: true}, nil
}

func (s *httpServer) get(ctx context.Context, key Blob) (*Entry, error) {
	var text bytes.Buffer
	if err := s.download(ctx, "ac", key, &limited{&text, maxEntry}); err != nil {
		return nil, err
	}
	r := &re.ActionResult{}
	if err := proto.Unmarshal(text.Bytes(), r); err != nil {
		return nil, fmt.Errorf("%w: an entry that is none: %w", ErrWrong, err)
	}
	return entryOf(r)
}

func (s *httpServer) set(ctx context.Context, key Blob, e *Entry) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(resultOf(e))
	if err != nil {
		return err
	}
	return s.upload(ctx, "ac", Blob{key.Digest, int64(len(text))}, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
}

func (s *httpServer) missing(ctx context.Context, blobs []Blob) (out []Blob, err error) {
	for _, b := range blobs {
		res, err := s.do(ctx, http.MethodHead, "cas", b, nil)
		if err != nil {
			return nil, err
		}
		res.Body.Close()
		switch {
		case res.StatusCode == http.StatusOK && (res.ContentLength == b.Size || res.ContentLength < 0):
		case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusOK:
			out = append(out, b)
		default:
			return nil, refused(res)
		}
	}
	return out, nil
}

func (s *httpServer) read(ctx context.Context, b Blob, w io.Writer) error {
	return s.download(ctx, "cas", b, w)
}

func (s *httpServer) write(ctx context.Context, b Blob, open func() (io.ReadCloser, error)) error {
	return s.upload(ctx, "cas", b, open)
}

func (s *httpServer) download(ctx context.Context, kind string, b Blob, w io.Writer) error {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	res, err := s.do(ctx, http.MethodGet, kind, b, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		_, err = io.Copy(w, &ticking{res.Body, alive})
		return err
	case http.StatusNotFound:
		return ErrMiss
	}
	return refused(res)
}

// upload sends content, checked while it is sent: the server cannot, as a rule. What turns out to be wrong ends before its last byte, and the
// server, which was told the length, drops it.
func (s *httpServer) upload(ctx context.Context, kind string, b Blob, open func() (io.ReadCloser, error)) error {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	src, err := open()
	if err != nil {
		return err
	}
	defer src.Close()
	body := io.Reader(&ticking{src, alive})
	if kind == "cas" {
		body = &verified{from: body, sum: newChecked(b, io.Discard)}
	}
	res, err := s.do(ctx, http.MethodPut, kind, b, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return refused(res)
	}
	return nil
}

func (s *httpServer) do(ctx context.Context, method, kind string, b Blob, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+"/"+kind+"/"+b.Digest.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "kbuild")
	req.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		req.ContentLength = b.Size
		req.Header.Set("Content-Type", "application/octet-stream")
		req.Header.Set("Expect", "100-continue")
	}
	if s.header != nil {
		if err := s.header(ctx, req); err != nil {
			return nil, err
		}
	}
	return s.client.Do(req)
}

// StatusError is an answer that is neither what was asked for nor a miss.
type StatusError struct{ Code int }

func (e StatusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
}

func refused(res *http.Response) error { return StatusError{res.StatusCode} }

// limited refuses more than some bytes.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("%w: an entry without an end", ErrWrong)
	}
	return l.to.Write(p)
}

// ticking tells of every read.
type ticking struct {
	from io.Reader
	tick func()
}

func (t *ticking) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.tick()
	return n, err
}

// verified gives the bytes of a blob, the last of them only if all are right.
type verified struct {
	from io.Reader
	sum  *checked
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.from.Read(p)
	if _, wrong := v.sum.Write(p[:n]); wrong != nil {
		return 0, wrong
	}
	if v.sum.size == v.sum.want.Size || err == io.EOF {
		if wrong := v.sum.check(); wrong != nil {
			return 0, wrong
		}
	}
	return n, err
}
