// Package reapi speaks to action caches on other machines: servers of the Remote Execution API over
// gRPC, as bazel-remote, Buildbarn and BuildGrid are. It is linked into kbuild-remote alone: its
// libraries take two milliseconds to start, which is half of a build with nothing to do.
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

// Blob names content by its digest and its size in bytes.
type Blob struct {
	Digest cache.Digest
	Size   int64
}

// BlobOf is the name of b.
func BlobOf(b []byte) Blob { return Blob{sha256.Sum256(b), int64(len(b))} }

// Entry is what a server keeps under a key: names, and the blobs behind them. A server may forget
// it whole, and answers that check completeness do so as soon as one of its blobs is gone.
type Entry struct{ Files []File }

// File is one blob of an entry.
type File struct {
	Name string
	Blob
	Exec bool
}

// content is a blob that is sent. It is opened again where it must be sent again.
type content struct {
	Blob
	open func() (io.ReadCloser, error)
}

// ErrMiss is what a server says that does not have something.
var ErrMiss = errors.New("not in the remote cache")

// ErrWrong wraps content that is not what its digest says, and answers that cannot be.
var ErrWrong = errors.New("wrong answer of the remote cache")

// server is one that keeps entries and blobs. Every method ends with its context, and may be called
// concurrently.
type server interface {
	// connect asks what the server can do, once.
	connect(ctx context.Context) (Abilities, error)
	// get gives the entry under a key; ErrMiss if there is none.
	get(ctx context.Context, key Blob) (*Entry, error)
	// set puts an entry under the key that action and command, whose messages are given, stand for.
	// All blobs of it are there.
	set(ctx context.Context, key Blob, e *Entry) error
	// missing gives those of some blobs that the server lacks. A server that cannot say lacks all.
	missing(ctx context.Context, blobs []Blob) ([]Blob, error)
	// read writes the content of a blob, which may be wrong, to w, and gives the bytes that came;
	// ErrMiss if there is none.
	read(ctx context.Context, b Blob, w io.Writer) (wire int64, err error)
	// write stores blobs, each checked before it is complete, and gives the bytes that were sent.
	write(ctx context.Context, contents []content) (wire int64, err error)
	io.Closer
}

// Abilities are what a server says of itself.
type Abilities struct {
	Server   string // what it speaks, to be shown: "REAPI 2.3"
	Executes bool   // it runs commands
	Updates  bool   // entries may be written; the server may still refuse
}

// checked takes content and checks that it is that of a blob, while it goes to where it should.
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
