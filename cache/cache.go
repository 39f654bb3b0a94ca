// Package cache defines what the action cache stores and how its keys are computed. It knows
// nothing of compilers or graphs; cache/disk stores the entries.
//
// Lookup has two levels, like ccache's direct mode. The command key covers everything known before
// a command runs: tools by content, argv, environment, declared inputs by content. Under one
// command key there are any number of Records, one for each set of discovered inputs (headers). A
// record is valid if every file that it discovered still has the same content and every path that
// it found absent is still absent. So a hit starts no process.
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
const KeyVersion = "kbuild-7"

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String returns 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the digest in hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses 64 hex digits.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return fmt.Errorf("digest of %d characters, want %d", len(b), 2*len(d))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// Key is the fingerprint of an action: a digest over its fields.
type Key = Digest

// KeyWriter receives the fields of a key in a fixed order. Hasher hashes them, Text keeps them for
// `kbuild why`. One traversal feeds both, so an explanation always matches the key.
type KeyWriter interface {
	// Field adds one named value. A name may repeat; order matters.
	Field(name, value string)
}

// Field is one named part of a key.
type Field struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Hasher is the KeyWriter that computes the key.
type Hasher struct{ h hash.Hash }

// NewHasher returns a Hasher salted with KeyVersion.
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

// Sum returns the key of the fields so far.
func (w *Hasher) Sum() Key { return Key(w.h.Sum(nil)) }

// KeyOf returns the key over these fields.
func KeyOf(fields []Field) Key {
	w := NewHasher()
	for _, f := range fields {
		w.Field(f.Name, f.Value)
	}
	return w.Sum()
}

// Text is the KeyWriter that keeps the fields.
type Text struct{ Fields []Field }

func (w *Text) Field(name, value string) { w.Fields = append(w.Fields, Field{name, value}) }

// FileDigest is a file and its content, or a macro of the command line and its value.
type FileDigest struct {
	// As the action names it: relative to the project root, or absolute; -DNAME for a macro.
	Path   string `json:"p"`
	Digest Digest `json:"d"`
}

// Output is a file that an action wrote. Its content is a blob of the store.
type Output struct {
	Path   string `json:"p"`
	Digest Digest `json:"d"`
	Size   int64  `json:"s"`
	Exec   bool   `json:"x,omitempty"` // the executable bit
	// The store of the record may lack the content; a dependent action then reruns this one.
	Unkept bool `json:"u,omitempty"`
}

// Record is one successful run of an action.
type Record struct {
	Command Key `json:"command"`
	// The fields that Command is the digest of.
	Fields []Field `json:"fields"`
	// Read besides the declared inputs, sorted by path.
	Discovered []FileDigest `json:"discovered,omitempty"`
	// Paths whose existence would change what the compiler reads or searches; DIR/ must not become
	// a file.
	Absent []string `json:"absent,omitempty"`
	// Lists of the folders that the compiler searched, in order, joined by newlines: see
	// discover.shadowCandidates.
	Search []string `json:"search,omitempty"`
	// Files that the compiler did not read, in folders that it searched before one that it read
	// from.
	Passed    []string      `json:"passed,omitempty"`
	Outputs   []Output      `json:"outputs"`
	Text      string        `json:"text,omitempty"` // output of the command, replayed on a hit
	Functions []Function    `json:"functions,omitempty"`
	Elapsed   time.Duration `json:"elapsed"`
	CPU       time.Duration `json:"cpu"`
	MaxRSS    int64         `json:"max_rss"` // bytes, of the largest process; 0 is unknown
	Made      time.Time     `json:"made"`
	// Address of the remote cache that it came from; known to this machine only, "" in all that is
	// sent.
	Origin string `json:"origin,omitempty"`
}

// Function holds the resources that a function in device code uses, as ptxas reports them. Sizes
// are bytes per thread, except Shared, which is bytes per block.
type Function struct {
	Name string `json:"name"`           // mangled
	Arch string `json:"arch,omitempty"` // "sm_80"
	// A kernel; for other functions ptxas reports only the stack.
	Entry       bool `json:"entry,omitempty"`
	Registers   int  `json:"registers,omitempty"`
	Barriers    int  `json:"barriers,omitempty"`
	Shared      int  `json:"shared,omitempty"`   // statically declared
	Constant    int  `json:"constant,omitempty"` // all banks
	Stack       int  `json:"stack,omitempty"`
	SpillStores int  `json:"spill_stores,omitempty"`
	SpillLoads  int  `json:"spill_loads,omitempty"`
}

// ID identifies the record under its command key: a digest over what it discovered.
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

// Suspect reports whether a record from another machine must be rejected. Either its key is not the
// digest of its fields, or it names files that the kernel synthesizes. No compile reads such files,
// and reading some of them blocks forever.
func (r *Record) Suspect() bool {
	ofKernel := func(f FileDigest) bool {
		name := path.Clean(f.Path)
		return slices.ContainsFunc([]string{"/proc/", "/sys/", "/dev/"}, func(dir string) bool { return strings.HasPrefix(name, dir) })
	}
	return KeyOf(r.Fields) != r.Command || slices.ContainsFunc(r.Discovered, ofKernel)
}

// ErrCorrupt wraps every error about a damaged entry. A corrupt entry is a miss and is removed.
var ErrCorrupt = errors.New("corrupt cache entry")

// Store keeps records and blobs. Any number of processes may use one store concurrently. All
// methods may be called concurrently.
type Store interface {
	// Records returns the records under a command key, most recently used first. A key without
	// records is not an error. Corrupt records are omitted and removed.
	Records(ctx context.Context, command Key) ([]*Record, error)

	// Put stores the outputs of r, then r itself, so that a record never appears before its blobs.
	// file returns the path that an output is read from. Put returns an error if a file does not
	// have the digest that r names for it.
	Put(ctx context.Context, r *Record, file func(Output) string) error

	// Restore writes the content of out to a new file. Its folder must exist, and name must not.
	// Restore checks the content against out.Digest while copying, and sets the mode. The error for
	// an absent blob is fs.ErrNotExist. A blob with wrong content is removed, and the error is
	// ErrCorrupt.
	Restore(ctx context.Context, out Output, name string) error

	// Used records a use of r, for the order of Records and for gc.
	Used(r *Record)
}

// Distant is a store that can also query remote caches for records.
type Distant interface {
	Store

	// Elsewhere returns records under a command key that the local store does not have. Any failure
	// yields no records.
	Elsewhere(ctx context.Context, command Key) []*Record

	// Confirm queries whether the outputs of a valid record from a remote cache are available.
	Confirm(ctx context.Context, r *Record) bool

	// Missed records that no remote record was valid, or that there was none.
	Missed()
}

// ParseDigest parses 64 hex digits, surrounded by any white space.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	err := d.UnmarshalText([]byte(strings.TrimSpace(s)))
	return d, err
}

// Counters sum what the cache did for one build, or for all builds. Actions that the build tree
// satisfies are not looked up in the cache and not counted.
type Counters struct {
	// Actions restored by their command and the files that it read: no process was started.
	Direct int64 `json:"direct"`
	// Passes restored by the content of their input, which an earlier pass had to write.
	Stage  int64 `json:"stage"`
	Misses int64 `json:"misses"` // actions looked up and not found
	Bytes  int64 `json:"bytes"`  // restored
	// Elapsed time of the restored actions when they ran, minus the time that restoring took.
	Saved time.Duration `json:"saved"`

	// The part of Direct and Stage that was restored by records that only a remote cache had.
	Remote   int64 `json:"remote"`
	Received int64 `json:"received"` // bytes of outputs received from remote caches
	Sent     int64 `json:"sent"`     // bytes sent to remote caches
}

// Asked returns the number of actions that were looked up.
func (c Counters) Asked() int64 { return c.Direct + c.Stage + c.Misses }

// Hits returns the number of actions that were found.
func (c Counters) Hits() int64 { return c.Direct + c.Stage }

// Add returns the sum.
func (c Counters) Add(d Counters) Counters {
	return Counters{c.Direct + d.Direct, c.Stage + d.Stage, c.Misses + d.Misses, c.Bytes + d.Bytes, c.Saved + d.Saved,
		c.Remote + d.Remote, c.Received + d.Received, c.Sent + d.Sent}
}
