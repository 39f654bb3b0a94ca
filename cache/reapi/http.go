package reapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// httpServer is a web server with Bazel's layout: BASE/ac/HASH holds entries and BASE/cas/HASH
// blobs, both by GET and PUT. bazel-remote knows what they are; nginx and the like keep what they
// are given.
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

// connect asks for the entry of nothing: whatever the answer says, somebody is there who lets us
// ask.
func (s *httpServer) connect(ctx context.Context) (Abilities, error) {
	key, _ := action("kbuild")
	if _, err := s.get(ctx, key); err != nil && err != ErrMiss {
		return Abilities{}, err
	}
	return Abilities{Server: "HTTP", Updates: true}, nil
}

func (s *httpServer) get(ctx context.Context, key Blob) (*Entry, error) {
	var text bytes.Buffer
	if _, err := s.download(ctx, "ac", key, &limited{&text, maxEntry}); err != nil {
		return nil, err
	}
	r := &re.ActionResult{}
	if err := proto.Unmarshal(text.Bytes(), r); err != nil {
		return nil, fmt.Errorf("%w: an entry that is none: %w", ErrWrong, err)
	}
	return entryOf(r)
}

func (s *httpServer) set(ctx context.Context, key Blob, e *Entry) error {
	text := marshal(resultOf(e))
	_, err := s.upload(ctx, "ac", content{Blob{key.Digest, int64(len(text))}, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }})
	return err
}

func (s *httpServer) missing(ctx context.Context, blobs []Blob) (out []Blob, err error) {
	for _, b := range blobs {
		req, err := s.request(ctx, http.MethodHead, "cas", b)
		if err != nil {
			return nil, err
		}
		res, err := s.client.Do(req)
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

func (s *httpServer) read(ctx context.Context, b Blob, w io.Writer) (wire int64, err error) {
	return s.download(ctx, "cas", b, w)
}

func (s *httpServer) write(ctx context.Context, contents []content) (wire int64, err error) {
	for _, c := range contents {
		n, err := s.upload(ctx, "cas", c)
		if wire += n; err != nil {
			return wire, err
		}
	}
	return wire, nil
}

// download takes what a server keeps, compressed if it likes.
func (s *httpServer) download(ctx context.Context, kind string, b Blob, w io.Writer) (wire int64, err error) {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	req, err := s.request(ctx, http.MethodGet, kind, b)
	if err != nil {
		return 0, err
	}
	if kind == "cas" && b.Size >= compressFrom {
		req.Header.Set("Accept-Encoding", "zstd")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return 0, ErrMiss
	default:
		return 0, refused(res)
	}
	body := &counter{from: movingReader{res.Body, alive}}
	if res.Header.Get("Content-Encoding") == "zstd" {
		err = decode(w, body, b)
	} else {
		_, err = io.Copy(w, body)
	}
	return body.n, err
}

// upload sends content, checked while it is sent: the server cannot, as a rule. What turns out to
// be wrong ends before its last byte, and the server, which was told the length, drops it. It is
// never compressed: nothing tells a server that would decode it from one that would keep it as it
// comes, and give it to others so.
func (s *httpServer) upload(ctx context.Context, kind string, c content) (wire int64, err error) {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	req, err := s.request(ctx, http.MethodPut, kind, c.Blob)
	if err != nil {
		return 0, err
	}
	var sent atomic.Int64 // of a body that may still be read when the server has answered
	req.GetBody = func() (io.ReadCloser, error) {
		src, err := c.open()
		if err != nil {
			return nil, err
		}
		body := io.Reader(readerFunc(func(p []byte) (int, error) {
			n, err := src.Read(p)
			sent.Add(int64(n))
			alive()
			return n, err
		}))
		if kind == "cas" {
			body = &verified{from: body, sum: newChecked(c.Blob, io.Discard)}
		}
		return struct {
			io.Reader
			io.Closer
		}{body, src}, nil
	}
	if req.Body, err = req.GetBody(); err != nil {
		return 0, err
	}
	req.ContentLength = c.Size
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Expect", "100-continue")
	req.Header["Idempotency-Key"] = nil // not sent; net/http then sends again what a server did not read that was just closing the connection
	res, err := s.client.Do(req)
	if err != nil {
		return sent.Load(), err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return sent.Load(), refused(res)
	}
	return sent.Load(), nil
}

func (s *httpServer) request(ctx context.Context, method, kind string, b Blob) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+"/"+kind+"/"+b.Digest.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "kbuild")
	req.Header.Set("Accept-Encoding", "identity")
	if s.header != nil {
		err = s.header(ctx, req)
	}
	return req, err
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
