package disk

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/cache"
)

// A bundle is a part of a store in one file, to ship with a package or to seed a machine. It is a
// tar file, compressed with zstd as a whole, with these entries:
//
//	manifest.json             a Manifest
//	blobs/<digest>            uncompressed content, before the first record that names it
//	records/<command>.<id>    as in the store
//
// Two bundles of the same entries have the same bytes.

const (
	bundleFormat   = 1
	bundleManifest = "manifest.json"
)

// Manifest describes what a bundle contains and which machines can use it.
type Manifest struct {
	Format int `json:"format"`
	// Must be equal on another machine for its builds to find the entries.
	Fingerprint []cache.Field `json:"identity"`
	Targets     []string      `json:"targets"`
	Archs       []string      `json:"archs"`
	Entries     []BundleEntry `json:"entries"`
	Records     int           `json:"records"`
	Blobs       int           `json:"blobs"`
	Bytes       int64         `json:"bytes"` // total size of the blobs
}

// BundleEntry is an action with its record. Actions with one key share a record.
type BundleEntry struct {
	Output string `json:"output"` // first output of the action
	Record string `json:"record"` // name of the record in a store
	record *cache.Record
}

// Entry returns the entry of an action with this first output.
func Entry(output string, r *cache.Record) BundleEntry {
	return BundleEntry{output, recordName(r.Command, r.ID()), r}
}

// Export writes the entries of m with the content of their outputs. It returns m with their counts.
func (s *Store) Export(ctx context.Context, w io.Writer, m Manifest) (Manifest, error) {
	m.Format = bundleFormat
	steps := m.count()
	z, err := zstd.NewWriter(w)
	if err != nil {
		return m, err
	}
	b := bundler{s: s, ctx: ctx, w: tar.NewWriter(z)}
	b.json(bundleManifest, m)
	for _, step := range steps {
		for _, o := range step.contents {
			b.content(o)
		}
		b.record(step.record)
	}
	return m, errors.Join(b.err, b.w.Close(), z.Close())
}

// Counted returns m with the counts of its entries.
func (m Manifest) Counted() Manifest {
	m.count()
	return m
}

// bundleStep is a record and the contents that must precede it.
type bundleStep struct {
	contents []cache.Output
	record   *cache.Record
}

// count lists what Export must write, each record and content once. It sets the counts of m.
func (m *Manifest) count() (steps []bundleStep) {
	records, contents := map[string]bool{}, map[cache.Digest]bool{}
	for _, e := range m.Entries {
		if records[e.Record] {
			continue
		}
		records[e.Record] = true
		step := bundleStep{record: e.record}
		for _, o := range e.record.Outputs {
			if !o.Unkept && !contents[o.Digest] {
				contents[o.Digest] = true
				step.contents = append(step.contents, o)
				m.Bytes += o.Size
			}
		}
		steps = append(steps, step)
	}
	m.Records, m.Blobs = len(records), len(contents)
	return steps
}

// bundler writes the files of a bundle and stops at the first error.
type bundler struct {
	s   *Store
	ctx context.Context
	w   *tar.Writer
	err error
}

func (b *bundler) file(name string, content []byte) {
	if b.header(name, int64(len(content))); b.err == nil {
		_, b.err = b.w.Write(content)
	}
}

func (b *bundler) header(name string, size int64) {
	if b.err == nil {
		b.err = b.w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg})
	}
}

func (b *bundler) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.err = errors.Join(b.err, err)
	}
	b.file(name, append(text, '\n'))
}

func (b *bundler) record(r *cache.Record) {
	mine := *r
	mine.Origin = "" // known to this machine only
	content, err := EncodeRecord(&mine)
	if err != nil {
		b.err = errors.Join(b.err, err)
	}
	b.file(path.Join("records", recordName(r.Command, r.ID())), content)
}

func (b *bundler) content(o cache.Output) {
	if b.header(path.Join("blobs", o.Digest.String()), o.Size); b.err != nil {
		return
	}
	src, compressed, err := b.s.openBlob(o.Digest)
	if err != nil {
		b.err = fmt.Errorf("the content of %s is not in the cache: %w; run `kbuild cache verify` and build again", o.Path, err)
		return
	}
	defer src.Close()
	t := transfer{ctx: b.ctx}
	d, _, err := t.read(b.w, src, compressed, o.Size)
	if err == nil && d != o.Digest {
		err = fmt.Errorf("%w: the content of %s is damaged; run `kbuild cache verify` and build again", cache.ErrCorrupt, o.Path)
	}
	b.err = err
}

// ImportResult counts what Import added, without entries that already existed.
type ImportResult struct {
	Records int   `json:"records"`
	Blobs   int   `json:"blobs"`
	Bytes   int64 `json:"bytes"`
}

// Import adds the entries of a bundle if accept returns no error for its manifest. A bundle that
// ends early or is damaged is an error; the complete entries before the damage stay. Import reads
// nothing that the manifest does not announce. It rejects a file that is not a bundle at its first
// bytes, at the first unexpected header, or at data after the end.
func (s *Store) Import(ctx context.Context, r io.Reader, accept func(Manifest) error) (ImportResult, error) {
	var res ImportResult
	z, err := openBundle(r)
	if err != nil {
		return res, fmt.Errorf("this is no bundle of kbuild: %w", err)
	}
	defer z.Close()
	b := unbundler{s: s, ctx: ctx, r: tar.NewReader(z), res: &res}
	if b.m, err = b.manifest(); err != nil {
		return res, fmt.Errorf("this is no bundle of kbuild: %w", err)
	}
	if err := accept(b.m); err != nil {
		return res, err
	}
	for err == nil {
		err = b.next()
	}
	if err == io.EOF && (b.records != b.m.Records || b.blobs != b.m.Blobs) {
		err = fmt.Errorf("it ends early: %w", io.ErrUnexpectedEOF)
	}
	if err == io.EOF {
		err = atEnd(z)
	}
	if err != nil {
		return res, fmt.Errorf("reading the bundle: %w", err)
	}
	text, err := json.Marshal(b.m)
	if err == nil {
		err = s.putFile(s.path(imports, fmt.Sprintf("%x.json", sha256.Sum256(text))), text)
	}
	return res, s.unwritable(err)
}

// bundleWindow is the window of the encoder. As a limit of the decoder it bounds the memory that a
// bundle can request.
const bundleWindow = 8 << 20

// zstdMagic starts a zstd frame. A bundle never starts with a skippable frame, which could have up
// to 4 GiB.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

func openBundle(r io.Reader) (*zstd.Decoder, error) {
	ahead := bufio.NewReader(r)
	if head, err := ahead.Peek(len(zstdMagic)); err != nil && err != io.EOF {
		return nil, err
	} else if !bytes.Equal(head, zstdMagic) {
		return nil, errors.New("it is not compressed with zstd")
	}
	return zstd.NewReader(ahead, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(bundleWindow))
}

// padding is the maximum size of the data after the end of the tar file.
const padding = 64 << 10

// atEnd reads the padding after the tar file, so that the zstd decoder verifies its checksum.
func atEnd(z io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(z, padding+1))
	if err == nil && n > padding {
		err = fmt.Errorf("%w: it has data after its end", cache.ErrCorrupt)
	}
	return err
}

// unbundler reads the files of a bundle.
type unbundler struct {
	s   *Store
	ctx context.Context
	r   *tar.Reader
	res *ImportResult
	m   Manifest

	records, blobs int   // number read so far
	bytes          int64 // of the blobs
}

func (b *unbundler) manifest() (m Manifest, err error) {
	h, err := b.r.Next()
	if err != nil {
		return m, err
	}
	if h.Name != bundleManifest || h.Typeflag != tar.TypeReg || h.Size > MaxRecord {
		return m, fmt.Errorf("it begins with %q of %d bytes", h.Name, h.Size)
	}
	if err := json.NewDecoder(b.r).Decode(&m); err != nil {
		return m, fmt.Errorf("%s: %w", bundleManifest, err)
	}
	if m.Format != bundleFormat {
		return m, fmt.Errorf("its format is %d, and this kbuild reads format %d", m.Format, bundleFormat)
	}
	return m, nil
}

// next adds one file to the store. It returns io.EOF at the end.
func (b *unbundler) next() error {
	h, err := b.r.Next()
	if err != nil {
		return err
	}
	dir, name := path.Split(h.Name)
	d, noDigest := cache.ParseDigest(name)
	switch {
	case h.Typeflag != tar.TypeReg:
	case dir == "blobs/" && noDigest == nil:
		b.blobs++
		b.bytes += h.Size
		if b.blobs > b.m.Blobs || b.bytes > b.m.Bytes {
			return fmt.Errorf("%w: %q has %d bytes, and the manifest announces %d bytes in %d files", cache.ErrCorrupt, h.Name, h.Size, b.m.Bytes, b.m.Blobs)
		}
		return b.content(cache.Output{Path: h.Name, Digest: d, Size: h.Size})
	case dir == "records/" && h.Size <= MaxRecord && b.records < b.m.Records:
		b.records++
		return b.record(name)
	}
	return fmt.Errorf("%w: it holds %q", cache.ErrCorrupt, h.Name)
}

func (b *unbundler) content(o cache.Output) error {
	if b.s.reuse(o) {
		return checkContent(b.ctx, o, b.r)
	}
	if err := b.s.putContent(b.ctx, o, b.r); err != nil {
		return err
	}
	b.res.Blobs++
	b.res.Bytes += o.Size
	return nil
}

// record adds a record whose content matches its name. The store must have its blobs.
func (b *unbundler) record(name string) error {
	text, err := io.ReadAll(b.r)
	if err != nil {
		return err
	}
	r, err := DecodeRecord(text)
	if err != nil {
		return err
	}
	if name != recordName(r.Command, r.ID()) || r.Suspect() {
		return fmt.Errorf("%w: the record %s is not what its name says, or names files of the kernel", cache.ErrCorrupt, name)
	}
	for _, d := range kept(r) {
		if _, _, _, err := b.s.findBlob(d); err != nil {
			return fmt.Errorf("%w: it lacks the content of %s: %w", cache.ErrCorrupt, r.Outputs[0].Path, err)
		}
	}
	if r.Origin != "" {
		r.Origin = "" // the origin is known to this machine only
		if text, err = EncodeRecord(r); err != nil {
			return err
		}
	}
	if !exists(b.s.record(r)) {
		b.res.Records++
	}
	return b.s.unwritable(b.s.putRecord(r, text))
}

// imports is the folder of the manifests of imported bundles, one file each.
const imports = "imports"

// imported is the manifest of an imported bundle.
type imported struct {
	storedFile
	Manifest
}

// imported lists the manifests of the imported bundles, most recent first. It omits unreadable
// ones.
func (s *Store) imported() (all []imported) {
	files, _ := filesOf(s.path(imports))
	slices.SortStableFunc(files, func(a, b storedFile) int { return b.used.Compare(a.used) })
	for _, f := range files {
		i := imported{storedFile: f}
		if text, err := readAtMost(f.name, MaxRecord); err == nil && json.Unmarshal(text, &i.Manifest) == nil {
			all = append(all, i)
		}
	}
	return all
}

// Imported maps the first output of an action to its record in the most recent bundle with such an
// action.
func (s *Store) Imported() map[string]string {
	out := map[string]string{}
	for _, i := range slices.Backward(s.imported()) {
		for _, e := range i.Entries {
			out[e.Output] = e.Record
		}
	}
	return out
}

// Named returns the record with this name.
func (s *Store) Named(record string) (*cache.Record, error) {
	command, id, ok := splitRecordName(record)
	if !ok {
		return nil, fmt.Errorf("there is no record %q: %w", record, fs.ErrNotExist)
	}
	return readRecord(s.recordFile(command, id))
}

// forgetImports removes the manifests of bundles without any remaining record.
func (s *Store) forgetImports() {
	for _, i := range s.imported() {
		left := slices.ContainsFunc(i.Entries, func(e BundleEntry) bool {
			_, err := s.Named(e.Record)
			return err == nil
		})
		if !left {
			os.Remove(i.name)
		}
	}
}
