package reapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
)

// kbuild stores two kinds of action cache entries on a server:
//
//   - The key of the command ["kbuild", "records", COMMAND KEY] has an entry with the records of
//     that key: one file per record, named by the record's id. A lookup gets the entry, reads the
//     records, and finds out which of them is valid locally, as for records on disk.
//   - The key of ["kbuild", "outputs", COMMAND KEY, ID] has an entry with the outputs of one
//     record: files "0", "1" and so on. A lookup gets it before it uses the record. A server that
//     checks completeness then reports whether it still has the outputs, and keeps them longer.
//
// The last writer of the first entry wins. Of two concurrent writers one loses its record, which is
// a miss until it is stored again.

// maxRecords limits the records under one key, and so the data that one lookup reads.
const maxRecords = 16

// Client stores records and their outputs on a server.
type Client struct {
	s     server
	known known
	pulse pulse
	room  room
	// Set of the Blobs that arrived corrupt or not at all. They must be sent again even if the
	// server claims to have them.
	wrong sync.Map
}

// Close ends the connection.
func (c *Client) Close() error { return c.s.Close() }

// Connect queries the abilities of the server. It must be called first.
func (c *Client) Connect(ctx context.Context) (Abilities, error) { return c.s.connect(ctx) }

// Records returns the records under a command key, most recently written first, and the number of
// bytes received. It omits a record that is damaged, has another key, or claims larger outputs than
// an action can have.
func (c *Client) Records(ctx context.Context, command cache.Key) (all []*cache.Record, wire int64, err error) {
	e, err := c.s.get(ctx, recordsKey(command))
	if errors.Is(err, ErrMiss) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	files := e.Files[:min(len(e.Files), maxRecords)]
	texts, wires, errs := make([]bytes.Buffer, len(files)), make([]int64, len(files)), make([]error, len(files))
	var reading sync.WaitGroup
	room := int64(disk.MaxRecord) // for all of them together: they are read into memory
	for i, f := range files {     // concurrently: a build waits for the last one
		if f.Size <= room {
			room -= f.Size
			reading.Go(func() { wires[i], errs[i] = c.read(ctx, f.Blob, &texts[i]) })
		}
	}
	reading.Wait()
	for i, f := range files {
		wire += wires[i]
		if errs[i] != nil && !errors.Is(errs[i], ErrMiss) && !errors.Is(errs[i], ErrWrong) {
			err = errs[i]
		}
		if r, bad := disk.DecodeRecord(texts[i].Bytes()); errs[i] == nil && bad == nil && r.Command == command && r.ID().String() == f.Name {
			if _, bad := bounded(outputs(r)); bad == nil {
				all = append(all, r)
			}
		}
	}
	return all, wire, err
}

// Has reports whether the server claims to have all outputs of a record.
func (c *Client) Has(ctx context.Context, r *cache.Record) (bool, error) {
	key, _ := outputsKey(r)
	e, err := c.s.get(ctx, key)
	if errors.Is(err, ErrMiss) {
		return false, nil
	}
	return err == nil && slices.Equal(e.Files, outputs(r)), err
}

// Fetch writes the content of an output to w, which stores it in the folder dir. It returns the
// number of bytes received. After an error, such as ErrMiss, w may have received a part.
func (c *Client) Fetch(ctx context.Context, o cache.Output, dir string, w io.Writer) (wire int64, err error) {
	b := Blob{o.Digest, o.Size}
	total, err := bounded([]File{{Name: o.Path, Blob: b}})
	if err != nil {
		return 0, err
	}
	back, err := c.room.take(dir, total)
	if err != nil {
		return 0, err
	}
	defer back()
	return c.read(ctx, b, w)
}

// read reads a blob and checks its digest.
func (c *Client) read(ctx context.Context, b Blob, w io.Writer) (wire int64, err error) {
	check := newChecked(b, w)
	if b.Size > 0 { // some servers do not store the empty blob
		wire, err = c.s.read(ctx, b, check)
	}
	if err == nil {
		err = check.check()
	}
	if errors.Is(err, ErrWrong) || errors.Is(err, ErrMiss) {
		c.wrong.Store(b, true)
	}
	return wire, err
}

// Store sends a record and its outputs: first the blobs, then the entry of the outputs, then the
// entry of the records. It returns the number of bytes sent.
func (c *Client) Store(ctx context.Context, r *cache.Record, open func(cache.Output) (io.ReadCloser, error)) (sent int64, err error) {
	text, err := disk.EncodeRecord(r)
	if err == nil {
		_, err = bounded(outputs(r)) // no reader would accept it
	}
	if err != nil {
		return 0, err
	}
	ofOutputs, messages := outputsKey(r)
	ofRecords, more := action("kbuild", "records", r.Command.String())
	blobs := map[Blob]func() (io.ReadCloser, error){}
	for _, b := range append(append(messages, more...), text) {
		blobs[BlobOf(b)] = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	for _, o := range r.Outputs {
		if !o.Unkept {
			blobs[Blob{o.Digest, o.Size}] = func() (io.ReadCloser, error) { return open(o) }
		}
	}
	if sent, err = c.upload(ctx, blobs); err != nil {
		return sent, err
	}
	if err := c.s.set(ctx, ofOutputs, &Entry{outputs(r)}); err != nil {
		return sent, err
	}
	first := File{Name: r.ID().String(), Blob: BlobOf(text)}
	e := &Entry{[]File{first}}
	switch old, err := c.s.get(ctx, ofRecords); {
	case errors.Is(err, ErrMiss), errors.Is(err, ErrWrong): // the new entry replaces it
	case err == nil:
		e.Files = append(e.Files, slices.DeleteFunc(old.Files, func(f File) bool { return f.Name == first.Name })...)
		e.Files = e.Files[:min(len(e.Files), maxRecords)]
	default:
		return sent, err
	}
	return sent, c.s.set(ctx, ofRecords, e)
}

// upload sends the blobs that the server lacks.
func (c *Client) upload(ctx context.Context, blobs map[Blob]func() (io.ReadCloser, error)) (sent int64, err error) {
	all := make([]Blob, 0, len(blobs))
	for b := range blobs {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Blob) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	missing, err := c.s.missing(ctx, all)
	if err != nil {
		return 0, err
	}
	for _, b := range all {
		if _, wrong := c.wrong.Load(b); wrong && !slices.Contains(missing, b) {
			missing = append(missing, b)
		}
	}
	var contents []content
	for _, b := range missing {
		open, ok := blobs[b]
		if !ok {
			return 0, fmt.Errorf("%w: it lacks the blob %s, which it was not asked for", ErrWrong, b.Digest)
		}
		contents = append(contents, content{b, open})
	}
	if sent, err = c.s.write(ctx, contents); err != nil {
		return sent, err
	}
	for _, b := range missing {
		c.wrong.Delete(b)
	}
	return sent, nil
}

func recordsKey(command cache.Key) Blob {
	key, _ := action("kbuild", "records", command.String())
	return key
}

func outputsKey(r *cache.Record) (Blob, [][]byte) {
	return action("kbuild", "outputs", r.Command.String(), r.ID().String())
}

// outputs returns the outputs of a record whose content is stored.
func outputs(r *cache.Record) (files []File) {
	for i, o := range r.Outputs {
		if !o.Unkept {
			files = append(files, File{fmt.Sprint(i), Blob{o.Digest, o.Size}, o.Exec})
		}
	}
	return files
}

// uuid returns a random UUID, which some servers require in the name of an upload.
func uuid() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
