// Package cache defines what the action cache stores and how its keys are made. It knows nothing of
// compilers or graphs; cache/disk keeps the entries.
//
// Lookup has two levels, as ccache's direct mode. The command key covers everything known before a
// command runs: tools by content, argv, environment, declared inputs by content. Under one command
// key there are any number of Records, one for each set of discovered inputs (headers) seen so far.
// A record holds if every file it discovered still has the same content and every path it found
// absent is still absent. So a hit starts no process.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// KeyVersion salts every key. Raise it when the meaning of a key or a record changes.
const KeyVersion = "kbuild-6"

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String gives 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return fmt.Errorf("digest of %d characters, want %d", len(b), 2*len(d))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// Key names an action: a digest over its fields.
type Key = Digest

// KeyWriter receives the fields of a key in a fixed order. There are two: one hashes, one keeps the
// text for `kbuild why`, and both are fed by the same traversal, so an explanation cannot lie.
type KeyWriter interface {
	// Field adds one named value. A name may repeat; order matters.
	Field(name, value string)
}

// Field is one named part of a key.
type Field struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Hasher is the KeyWriter that hashes.
type Hasher struct{ h hash.Hash }

// NewHasher starts a key salted with KeyVersion.
func NewHasher() *Hasher {
	w := &Hasher{h: sha256.New()}
	w.Field("version", KeyVersion)
	return w
}

// Field writes the lengths before the texts, so that no two field lists collide.
func (w *Hasher) Field(name, value string) {
	fmt.Fprintf(w.h, "%d:%d:", len(name), len(value))
	io.WriteString(w.h, name)
	io.WriteString(w.h, value)
}

// Sum is the key of the fields so far.
func (w *Hasher) Sum() Key { return Key(w.h.Sum(nil)) }

// KeyOf is the key over these fields.
func KeyOf(fields []Field) Key {
	w := NewHasher()
	for _, f := range fields {
		w.Field(f.Name, f.Value)
	}
	return w.Sum()
}

// Text is the KeyWriter that keeps the fields.
type Text struct{ Fields []Field }

// Field appends.
func (w *Text) Field(name, value string) { w.Fields = append(w.Fields, Field{name, value}) }

// FileDigest is a file with its content, or a macro of the command line with its value.
type FileDigest struct {
	Path   string `json:"p"` // as the action names it: relative to the project root, or absolute; -DNAME for a macro
	Digest Digest `json:"d"`
}

// Output is a file an action wrote. Its content is a blob of the store.
type Output struct {
	Path   string `json:"p"`
	Digest Digest `json:"d"`
	Size   int64  `json:"s"`
	Exec   bool   `json:"x,omitempty"` // the executable bit
	Unkept bool   `json:"u,omitempty"` // the store that has the record may lack the content; who needs it runs the action again
}

// Record is one successful run of an action.
type Record struct {
	Command    Key           `json:"command"`
	Fields     []Field       `json:"fields"`               // what Command was made of
	Discovered []FileDigest  `json:"discovered,omitempty"` // read besides the declared inputs, sorted by path
	Absent     []string      `json:"absent,omitempty"`     // paths that would be read, or change where is searched, if they existed; DIR/ is a folder that may not become a file
	Search     []string      `json:"search,omitempty"`     // lists of the folders that the compiler searched, in order, joined by newlines: see discover.shadowCandidates
	Passed     []string      `json:"passed,omitempty"`     // files in these folders, before one that was discovered, that were not read
	Outputs    []Output      `json:"outputs"`
	Text       string        `json:"text,omitempty"` // what the command said, replayed on a hit
	Functions  []Function    `json:"functions,omitempty"`
	Elapsed    time.Duration `json:"elapsed"`
	CPU        time.Duration `json:"cpu"`
	MaxRSS     int64         `json:"max_rss"` // bytes, of the largest process; 0 is unknown
	Made       time.Time     `json:"made"`
	Forms      []FileDigest  `json:"-"`                // normal forms of headers among Discovered; a build tree has them, a cache does not: see discover
	Origin     string        `json:"origin,omitempty"` // address of the remote cache that it came from, as this machine knows; "" for all that leaves it
}

// Function is what ptxas says of a function in device code. Sizes are in bytes, for each thread but
// for Shared, which is for each block.
type Function struct {
	Name        string `json:"name"`            // mangled
	Arch        string `json:"arch,omitempty"`  // "sm_80"
	Entry       bool   `json:"entry,omitempty"` // a kernel; a function that it calls has no figures but of its stack
	Registers   int    `json:"registers,omitempty"`
	Barriers    int    `json:"barriers,omitempty"`
	Shared      int    `json:"shared,omitempty"`   // statically declared
	Constant    int    `json:"constant,omitempty"` // all banks
	Stack       int    `json:"stack,omitempty"`
	SpillStores int    `json:"spill_stores,omitempty"`
	SpillLoads  int    `json:"spill_loads,omitempty"`
}

// ID names the record under its command key: a digest over what it discovered.
func (r *Record) ID() Key {
	w := NewHasher()
	for _, f := range r.Discovered {
		w.Field(f.Path, f.Digest.String())
	}
	for _, p := range r.Absent {
		w.Field("absent", p)
	}
	for _, s := range r.Search {
		w.Field("search", s)
	}
	for _, p := range r.Passed {
		w.Field("passed", p)
	}
	return w.Sum()
}

// Suspect reports a record from elsewhere that is not to be believed: its key is not that of its
// fields, or it names files that the kernel makes up. Looking at some of those blocks for ever, and
// no compile reads them.
func (r *Record) Suspect() bool {
	ofKernel := func(f FileDigest) bool {
		name := path.Clean(f.Path)
		return slices.ContainsFunc([]string{"/proc/", "/sys/", "/dev/"}, func(dir string) bool { return strings.HasPrefix(name, dir) })
	}
	return KeyOf(r.Fields) != r.Command || slices.ContainsFunc(r.Discovered, ofKernel)
}

// ErrCorrupt wraps what is wrong with an entry. A corrupt entry is a miss and is removed.
var ErrCorrupt = errors.New("corrupt cache entry")

// Store keeps records and blobs. Any number of processes may use one store at once. All methods may
// be called concurrently.
type Store interface {
	// Records gives the records under a command key, last used first. No entry is no error. A
	// corrupt record is left out and removed.
	Records(ctx context.Context, command Key) ([]*Record, error)

	// Put stores the outputs of r, read from the paths that open maps an Output to, then r itself,
	// so that a record never appears before its blobs. It returns an error if a file does not have
	// the digest that r names for it.
	Put(ctx context.Context, r *Record, file func(Output) string) error

	// Restore writes the content of out to the file name (which must not exist, in an existing
	// folder), checks it against out.Digest while copying, and sets its mode. A blob that is absent
	// gives an error that is fs.ErrNotExist; one with wrong content ErrCorrupt, and is removed.
	Restore(ctx context.Context, out Output, name string) error

	// Used notes that r was used, for the order of Records and for gc.
	Used(r *Record)
}

// Distant is a store that can look further away for records than it does by itself.
type Distant interface {
	Store

	// Elsewhere gives records under a command key that the store itself does not have. Whatever is
	// wrong, there are none.
	Elsewhere(ctx context.Context, command Key) []*Record

	// Confirm asks whether the outputs of a record from elsewhere, which holds, can be had.
	Confirm(ctx context.Context, r *Record) bool

	// Missed notes that none of the records from elsewhere holds, or that there are none.
	Missed()
}

// ParseDigest reads 64 hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	err := d.UnmarshalText([]byte(strings.TrimSpace(s)))
	return d, err
}
