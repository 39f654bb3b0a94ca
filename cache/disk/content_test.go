package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/cache"
)

func TestWhatIsCompressed(t *testing.T) {
	s := open(t, t.TempDir())
	s.copies.Store(true)
	tests := map[string]struct {
		content    string
		compressed bool
	}{
		"small":              {strings.Repeat("x", compressFrom-1), false},
		"shrinks":            {strings.Repeat("x", compressFrom), true},
		"does not shrink":    {noise(compressFrom), false},
		"shrinks by a fifth": {noise(48<<10) + strings.Repeat("x", 12<<10), false},
		"in its second half": {noise(sampleSize) + strings.Repeat("x", sampleSize), false},
	}
	for name, test := range tests {
		r := put(t, s, name, test.content)
		_, compressed, info, err := s.findBlob(r.Outputs[0].Digest)
		if err != nil || compressed != test.compressed || compressed && info.Size() > int64(len(test.content)*3/4) {
			t.Errorf("%s: compressed %v: %v", name, compressed, err)
		}
	}
	res, problems, err := s.Verify(t.Context(), false)
	if err != nil || res.Blobs != len(tests) || len(problems) > 0 {
		t.Error(res, problems, err)
	}
}

// A frame may promise anything.
func TestFrameThatGrows(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "a", strings.Repeat("x", 100_000))
	var frame bytes.Buffer
	e, err := zstd.NewWriter(&frame, zstd.WithWindowSize(encoderWindow))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 64 {
		e.Write(zeros)
	}
	e.Close()
	write(t, blobOf(t, s, r.Outputs[0].Digest), frame.String())
	dst := filepath.Join(t.TempDir(), "x")
	wrote := 0
	s.fault = func(step string) error { wrote++; return nil }
	if err := s.Restore(t.Context(), r.Outputs[0], dst); !errors.Is(err, cache.ErrCorrupt) {
		t.Error(err)
	}
	if wrote > 10 {
		t.Errorf("%d writes of a file of 100 KB", wrote)
	}
}

// Content that is there in both forms, as two kbuilds at once may leave it, goes in both.
func TestGCOfBothForms(t *testing.T) {
	s := open(t, t.TempDir())
	content := strings.Repeat("x", 100_000)
	r := put(t, s, "a", content)
	write(t, s.blobName(r.Outputs[0].Digest, false), content)
	write(t, s.blobName(r.Outputs[0].Digest, true), "damaged")
	os.Remove(s.record(r))
	later(s, 2*grace)
	if res, err := s.GC(t.Context(), 0, 0); err != nil || res.Blobs != 2 || files(t, s.path("blobs")) != nil {
		t.Error(res, err)
	}
}
