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
//	sha256 <digest>        of everything before this line
//
// The blobs come first so that gc can read them from a few hundred bytes; the JSON with all headers
// of a CUDA source is 80 KB. A file is corrupt if it has a missing or surplus byte, a wrong
// checksum, a record of another key, or blobs other than those of its outputs.

const (
	recordMagic = "kbuild record 1\n"
	sumPrefix   = "sha256 "
	sumLine     = len(sumPrefix) + 2*sha256.Size + 1
	MaxRecord   = 64 << 20 // bytes of a record file
)

// EncodeRecord returns the content of a record file.
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

// DecodeRecord parses what EncodeRecord wrote. For any other text the error is cache.ErrCorrupt.
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

// kept returns the digests of the outputs that the store has.
func kept(r *cache.Record) []cache.Digest {
	var out []cache.Digest
	for _, o := range r.Outputs {
		if !o.Unkept {
			out = append(out, o.Digest)
		}
	}
	return out
}

// recordHead returns the blobs, and the JSON if b contains all of it and a newline.
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

// errOtherVersion reports a record with a correct checksum that this version of kbuild cannot use:
// its format differs, or its id covers other fields. A kbuild of that version may still use it, so
// it is left to gc.
var errOtherVersion = errors.New("a record of another version of kbuild")

// sealed reports whether a record file has the correct checksum.
func sealed(b []byte) bool {
	n := len(b) - sumLine
	return n >= 0 && string(b[n:]) == fmt.Sprintf("%s%x\n", sumPrefix, sha256.Sum256(b[:n]))
}

// readRecord reads and checks a record file. Its name must match its key and id.
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
	return io.ReadAll(io.LimitReader(f, most+1)) // a longer file fails its checksum
}

// readHead returns the blobs that a record names without checking the record: enough for gc. ok is
// false if the file is not a record.
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
