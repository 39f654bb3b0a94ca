// Package reapi is a client of remote action caches: servers of the Remote Execution API over gRPC,
// such as bazel-remote, Buildbarn and BuildGrid, and Bazel's HTTP caches. It knows records, blobs
// and remote commands, and nothing of builds. Only kbuild-remote links it: its libraries take two
// milliseconds to start, which is half of a null build.
package reapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/kbuild-dev/kbuild/cache"
)

// Blob identifies content by its digest and its size in bytes.
type Blob struct {
	Digest cache.Digest
	Size   int64
}

// BlobOf returns the Blob of b.
func BlobOf(b []byte) Blob { return Blob{sha256.Sum256(b), int64(len(b))} }

// Entry is the value that a server stores under a key: names and their blobs. A server may drop an
// entry at any time. A server that checks completeness drops it as soon as one of its blobs is
// gone.
type Entry struct{ Files []File }

// File is one blob of an entry.
type File struct {
	Name string
	Blob
	Exec bool
}

// content is a blob to send. open is called again for each retry.
type content struct {
	Blob
	open func() (io.ReadCloser, error)
}

// ErrMiss reports that the server does not have an entry or a blob.
var ErrMiss = errors.New("not in the remote cache")

// ErrWrong wraps errors about content with a wrong digest and about invalid answers.
var ErrWrong = errors.New("wrong answer of the remote cache")

// server stores entries and blobs. Every method returns when its context ends, and may be called
// concurrently.
type server interface {
	// connect queries the abilities of the server, once.
	connect(ctx context.Context) (Abilities, error)
	// get returns the entry under a key, or ErrMiss.
	get(ctx context.Context, key Blob) (*Entry, error)
	// set stores an entry under a key that action returned. The server must have all blobs of the
	// entry and of the key.
	set(ctx context.Context, key Blob, e *Entry) error
	// missing returns the blobs that the server lacks. A server that cannot tell lacks all.
	missing(ctx context.Context, blobs []Blob) ([]Blob, error)
	// read writes the content of a blob to w, unchecked, and returns the number of bytes received.
	// The error for a missing blob is ErrMiss.
	read(ctx context.Context, b Blob, w io.Writer) (wire int64, err error)
	// write stores blobs, each checked before it is complete, and returns the number of bytes sent.
	write(ctx context.Context, contents []content) (wire int64, err error)
	io.Closer
}

// Abilities are the features that a server announces.
type Abilities struct {
	Server   string // its protocol, for display: "REAPI 2.3"
	Executes bool   // it runs commands
	Updates  bool   // entries may be written; the server may still refuse
}

// checked passes content of a blob on to a writer, and checks its size and digest.
type checked struct {
	want Blob
	to   io.Writer
	sum  hash.Hash
	size int64
}

func newChecked(want Blob, to io.Writer) *checked {
	return &checked{want: want, to: to, sum: sha256.New()}
}

// Write implements io.Writer.
func (c *checked) Write(p []byte) (int, error) {
	if c.size += int64(len(p)); c.size > c.want.Size {
		return 0, fmt.Errorf("%w: more than the %d bytes of %s", ErrWrong, c.want.Size, c.want.Digest)
	}
	c.sum.Write(p)
	return c.to.Write(p)
}

func (c *checked) check() error {
	if d := cache.Digest(c.sum.Sum(nil)); d != c.want.Digest || c.size != c.want.Size {
		return fmt.Errorf("%w: %d bytes with digest %s in place of %d with %s", ErrWrong, c.size, d, c.want.Size, c.want.Digest)
	}
	return nil
}
