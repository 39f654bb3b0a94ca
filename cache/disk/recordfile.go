package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A record file is text:
//
//	kbuild record 1
//	blob <digest>          one for each output
//	json <bytes>
//	{...}
//	sha256 <digest>        of all before this line
//
// The blobs come first so that gc learns them from a few hundred bytes; the JSON with all headers
// of a CUDA source is 80 KB. Any doubt makes the file corrupt: a missing or surplus byte, a wrong
// sum, a record of another key, blobs that are not the outputs'.

const (
	recordMagic = "kbuild record 1\n"
	sumPrefix   = "sha256 "
	sumLine     = len(sumPrefix) + 2*sha256.Size + 1
	MaxRecord   = 64 << 20 // bytes of a record file
)

// EncodeRecord gives a record as it stands in its file.
func EncodeRecord(r *cache.Record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a cache record: %w", err)
	}
	var b bytes.Buffer
	b.Grow(len(text) + 512)
	b.WriteString(recordMagic)
	for _, d := range kept(r) {
		fmt.Fprintf(&b, "blob %s\n", d)
	}
	fmt.Fprintf(&b, "json %d\n%s\n", len(text), text)
	fmt.Fprintf(&b, "%s%x\n", sumPrefix, sha256.Sum256(b.Bytes()))
	return b.Bytes(), nil
}

// DecodeRecord reads what EncodeRecord wrote; every other text is cache.ErrCorrupt.
func DecodeRecord(b []byte) (*cache.Record, error) {
	n := len(b) - sumLine
	if !sealed(b) {
		return nil, fmt.Errorf("%w: a record of %d bytes has a wrong sum", cache.ErrCorrupt, len(b))
	}
	blobs, rest, ok := recordHead(b[:n])
	if !ok {
		return nil, fmt.Errorf("%w: a record has a wrong head", cache.ErrCorrupt)
	}
	r := new(cache.Record)
	if err := json.Unmarshal(rest, r); err != nil {
		return nil, fmt.Errorf("%w: a record: %w", cache.ErrCorrupt, err)
	}
	if !slices.Equal(blobs, kept(r)) {
		return nil, fmt.Errorf("%w: a record names other blobs than outputs", cache.ErrCorrupt)
	}
	return r, nil
}

// kept are the digests of the outputs that the store holds.
func kept(r *cache.Record) []cache.Digest {
	var out []cache.Digest
	for _, o := range r.Outputs {
		if !o.Unkept {
			out = append(out, o.Digest)
		}
	}
	return out
}

// recordHead gives the blobs, and the JSON if b holds all of it and a newline.
func recordHead(b []byte) (blobs []cache.Digest, text []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(recordMagic))
	for ok {
		var line []byte
		if line, b, ok = bytes.Cut(b, []byte("\n")); !ok {
			break
		}
		if size, found := strings.CutPrefix(string(line), "json "); found {
			if len(b) == 0 || fmt.Sprint(len(b)-1) != size || b[len(b)-1] != '\n' {
				return blobs, nil, false
			}
			return blobs, b[:len(b)-1], true
		}
		name, found := strings.CutPrefix(string(line), "blob ")
		d, err := cache.ParseDigest(name)
		if !found || err != nil {
			break
		}
		blobs = append(blobs, d)
	}
	return blobs, nil, false
}

// errOtherVersion is a record that is whole, as its sum says, and is none to this kbuild: it has
// another form, or an id of other fields. A kbuild of that version may still use it; who does not
// leaves it to gc.
var errOtherVersion = errors.New("a record of another version of kbuild")

// sealed reports a record file with the right sum.
func sealed(b []byte) bool {
	n := len(b) - sumLine
	return n >= 0 && string(b[n:]) == fmt.Sprintf("%s%x\n", sumPrefix, sha256.Sum256(b[:n]))
}

// readRecord reads and checks a record file; its name must be its key and id.
func readRecord(name string) (*cache.Record, error) {
	b, err := readAtMost(name, MaxRecord)
	if err != nil {
		return nil, err
	}
	r, err := DecodeRecord(b)
	command, id, _ := splitRecordName(filepath.Base(name))
	switch {
	case err != nil && sealed(b):
		return nil, fmt.Errorf("%w: %v", errOtherVersion, err)
	case err != nil:
		return nil, err
	case command == r.Command && id != r.ID():
		return nil, fmt.Errorf("%w: its name is made of other fields", errOtherVersion)
	case command != r.Command:
		return nil, fmt.Errorf("%w: a record under the name of another", cache.ErrCorrupt)
	}
	return r, nil
}

func readAtMost(name string, most int64) ([]byte, error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1)) // a longer one fails its sum
}

// readHead gives the blobs that a record names, unchecked: enough to know what must stay. ok is
// false if the file is no record.
func readHead(name string) (blobs []cache.Digest, ok bool) {
	for most := int64(4 << 10); ; most *= 16 {
		b, err := readAtMost(name, most)
		if err != nil {
			return nil, false
		}
		if head, _, found := bytes.Cut(b, []byte("\njson ")); found {
			blobs, _, _ = recordHead(append(head, "\njson \n"...))
			return blobs, true
		}
		if int64(len(b)) <= most || most > MaxRecord {
			return nil, false
		}
	}
}
