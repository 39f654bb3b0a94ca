package reapi

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// endless has a blob under every name, which has no end.
type endless struct {
	bytestream.UnimplementedByteStreamServer
	asked atomic.Int64
}

// Read implements bytestream.ByteStreamServer. What nobody stops it ends all the same, or a client without bounds would fill the disk of who tests.
func (e *endless) Read(_ *bytestream.ReadRequest, s bytestream.ByteStream_ReadServer) error {
	e.asked.Add(1)
	for range 1 << 10 {
		if err := s.Send(&bytestream.ReadResponse{Data: make([]byte, 64<<10)}); err != nil {
			return err
		}
	}
	return nil
}

// What a machine says to have made of a size that cannot be is lost, and no byte of it is asked for. It gets no more than it has named.
func TestTooLarge(t *testing.T) {
	const disk = 4 << 30
	for name, tt := range map[string]struct {
		sizes []int64 // of the outputs
		text  string
		asked int64
	}{
		"more than any":           {[]int64{maxMade + 1}, "has 2147483649 bytes, and outputs of a command may have", 0},
		"as much as can be said":  {[]int64{math.MaxInt64}, "bytes, and outputs of a command may have", 0},
		"together more than any":  {[]int64{maxMade / 2, maxMade/2 + 1}, "out/1 has", 0},
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

func output(i int) string { return fmt.Sprint("out/", i) }
