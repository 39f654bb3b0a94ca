package reapi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"

	"github.com/kbuild-dev/kbuild/cache"
	kept "github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/remote"
)

// endless has a blob under every name, which has no end.
type endless struct {
	bytestream.UnimplementedByteStreamServer
	asked atomic.Int64
}

// Read implements bytestream.ByteStreamServer. What nobody stops it ends all the same, or a client
// without bounds would fill the disk of who tests.
func (e *endless) Read(_ *bytestream.ReadRequest, s bytestream.ByteStream_ReadServer) error {
	e.asked.Add(1)
	for range 1 << 10 {
		if err := s.Send(&bytestream.ReadResponse{Data: make([]byte, 64<<10)}); err != nil {
			return err
		}
	}
	return nil
}

// What a machine says to have made of a size that cannot be is lost, and no byte of it is asked
// for. It gets no more than it has named.
func TestTooLarge(t *testing.T) {
	const disk = 4 << 30
	for name, tt := range map[string]struct {
		sizes []int64 // of the outputs
		text  string
		asked int64
	}{
		"more than any":           {[]int64{mostBytes + 1}, "has 2147483649 bytes, and outputs of an action may have", 0},
		"as much as can be said":  {[]int64{math.MaxInt64}, "bytes, and outputs of an action may have", 0},
		"together more than any":  {[]int64{mostBytes / 2, mostBytes/2 + 1}, "out/1 has", 0},
		"many that overflow":      {[]int64{math.MaxInt64, math.MaxInt64, 2}, "out/0 has", 0},
		"half of the disk, and 1": {[]int64{1, disk/2 - 100}, "too little space", 0}, // of which 100 bytes are taken
		"it has no end":           {[]int64{1 << 20}, "more than the 1048576 bytes", 1},
	} {
		e := &endless{}
		f := &farm{stream: e}
		f.run = func(_ int, _ string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
			r := &re.ActionResult{}
			for i, size := range tt.sizes {
				r.OutputFiles = append(r.OutputFiles, &re.OutputFile{Path: output(i), Digest: &re.Digest{Hash: strings.Repeat("0", 64), SizeBytes: size}})
			}
			return send(done(t, &re.ExecuteResponse{Result: r}))
		}
		cmd := command(t)
		dir := filepath.Dir(cmd.Outputs[0].File)
		cmd.Outputs = nil
		for i := range tt.sizes {
			cmd.Outputs = append(cmd.Outputs, remote.Output{Path: output(i), File: filepath.Join(dir, filepath.Base(output(i)))})
		}
		c := f.client(t)
		c.room.free = func(string) (int64, error) { return disk, nil }
		c.room.taken = 100
		_, err := c.Execute(t.Context(), cmd)
		if err == nil || !strings.Contains(err.Error(), tt.text) || errors.Is(err, errFatal) || e.asked.Load() != tt.asked || c.room.taken != 100 {
			t.Errorf("%s: %v, asked for %d, %d bytes taken", name, err, e.asked.Load(), c.room.taken)
		}
		if _, err := os.Stat(cmd.Outputs[len(tt.sizes)-1].File); err == nil {
			t.Errorf("%s: there is an output", name)
		}
	}
}

// A record that claims more than an action can have made is not found, and no byte of an output is
// requested that is too large, or larger than half of the disk.
func TestRecordTooLarge(t *testing.T) {
	const disk = 1 << 30
	for name, tt := range map[string]struct {
		sizes []int64
		text  string // of the error of who fetches the first output all the same; "" if it comes
	}{
		"as it is":                {[]int64{4, 4}, ""},
		"4 TiB":                   {[]int64{4 << 40}, "has 4398046511104 bytes, and outputs of an action may have"},
		"less than nothing":       {[]int64{-1}, "bytes, and outputs of an action may have"},
		"together more than any":  {[]int64{mostBytes/2 + 1, mostBytes / 2}, "too little space"},
		"half of the disk, and 1": {[]int64{disk/2 + 1}, "too little space"},
		"too many":                {make([]int64, mostFiles+1), "in place of"},
	} {
		f := &fake{message: 100}
		c := f.serve(t, 64<<20)
		c.room.free = func(string) (int64, error) { return disk, nil }
		r := record(name, "")
		for i, size := range tt.sizes {
			r.Outputs = append(r.Outputs, cache.Output{Path: output(i), Digest: sha256.Sum256([]byte("text")), Size: size})
		}
		text, err := kept.EncodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		blob := BlobOf(text)
		f.keep(blob.Digest.String(), text)
		f.keep(cache.Digest(sha256.Sum256([]byte("text"))).String(), []byte("text"))
		f.entries[recordsKey(r.Command).Digest.String()] = resultOf(&Entry{[]File{{Name: r.ID().String(), Blob: blob}}})
		all, _, err := c.Records(t.Context(), r.Command)
		if found := name == "as it is" || name == "half of the disk, and 1"; err != nil || len(all) == 1 != found {
			t.Errorf("%s: %d records, %v", name, len(all), err)
		}
		calls := len(f.calls)
		_, err = c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard)
		if (err == nil) != (tt.text == "") || err != nil && (!strings.Contains(err.Error(), tt.text) || len(f.calls) > calls) {
			t.Errorf("%s: %v after %v", name, err, f.calls[calls:])
		}
	}
}

func output(i int) string { return fmt.Sprint("out/", i) }
