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

// httpServer is a client of a web server with Bazel's layout: BASE/ac/HASH for entries and
// BASE/cas/HASH for blobs, both by GET and PUT. bazel-remote understands the content; nginx and
// similar servers only store it.
type httpServer struct {
	base   string
	client *http.Client
	who    authority // or nil
}

// maxEntry is the maximum size of an entry.
const maxEntry = 4 << 20

func newHTTP(base string, transport *http.Transport, who authority) *httpServer {
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 64 // the default of 2 opens a connection for nearly every blob
	transport.ResponseHeaderTimeout = call
	// A server can refuse before the content is sent.
	transport.ExpectContinueTimeout = time.Second
	transport.DialContext = (&net.Dialer{Timeout: call}).DialContext
	return &httpServer{strings.TrimSuffix(base, "/"), &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		// Do not send credentials to another host, nor turn a PUT into a GET.
		return http.ErrUseLastResponse
	}}, who}
}

// Close implements io.Closer.
func (s *httpServer) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// connect requests an entry that does not exist: any valid answer shows that the server accepts our
// requests.
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

// download reads a blob or an entry. The server may compress a blob.
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

// upload sends content and checks its digest while sending, since most servers cannot. If the
// digest is wrong, upload stops before the last byte, and the server drops the incomplete request.
// The content is never compressed: some servers would store it as sent and serve it to others in
// that form.
func (s *httpServer) upload(ctx context.Context, kind string, c content) (wire int64, err error) {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	req, err := s.request(ctx, http.MethodPut, kind, c.Blob)
	if err != nil {
		return 0, err
	}
	var sent atomic.Int64 // the transport may still read the body after the server has answered
	req.GetBody = func() (io.ReadCloser, error) {
		src, err := c.open()
		if err != nil {
			return nil, err
		}
		body := io.Reader(readerFunc(func(p []byte) (int, error) {
			n, err := src.Read(p)
			sent.Add(int64(n))
			alive.moved()
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
	// A nil value is not sent, but net/http then retries if the server was just closing the
	// connection.
	req.Header["Idempotency-Key"] = nil
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
	if s.who == nil {
		return req, nil
	}
	headers, err := s.who.headers(ctx, req.URL.String())
	for name, values := range headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, err
}

// StatusError is an HTTP status other than success and 404.
type StatusError struct{ Code int }

func (e StatusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
}

func refused(res *http.Response) error { return StatusError{res.StatusCode} }

// limited returns an error after left bytes.
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

// verified reads a blob, and returns its last bytes only if the digest is right.
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
