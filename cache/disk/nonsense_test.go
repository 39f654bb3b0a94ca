package disk

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// endless gives zeros, and counts them.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	clear(b)
	if e.read.Add(int64(len(b))) > 64<<20 {
		return 0, errors.New("read to the end")
	}
	return len(b), nil
}

// TestNonsenseBundle imports what begins as a bundle, more or less, and has no end.
func TestNonsenseBundle(t *testing.T) {
	manifest := Manifest{Format: bundleFormat, Blobs: 1, Bytes: 10}
	blob := "blobs/" + strings.Repeat("ab", 32)
	tests := []struct {
		name  string
		begin []byte              // what the file begins with
		tar   func(w *tar.Writer) // or what it holds
		want  string
	}{
		{name: "zeros", want: "it is not compressed with zstd"},
		{name: "a frame to skip", begin: []byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff}, want: "it is not compressed with zstd"},
		{name: "a large window", begin: []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x90}, want: "window size exceeded"},
		{name: "another file first", tar: func(w *tar.Writer) { tarEntry(w, "x", nil, 1<<40) }, want: `it begins with "x"`},
		{name: "a large manifest", tar: func(w *tar.Writer) { tarEntry(w, bundleManifest, nil, 1<<40) }, want: "of 1099511627776 bytes"},
		{name: "a large blob", tar: func(w *tar.Writer) {
			announce(w, manifest)
			tarEntry(w, blob, nil, 3<<30)
		}, want: "has 3221225472 bytes, and the manifest announces 10 bytes"},
		{name: "a large record", tar: func(w *tar.Writer) {
			announce(w, manifest)
			tarEntry(w, "records/x", nil, 1<<20)
		}, want: `it holds "records/x"`},
		{name: "no end", tar: func(w *tar.Writer) { announce(w, Manifest{Format: bundleFormat}) }, want: "it has data after its end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			more := &endless{}
			in := io.MultiReader(bytes.NewReader(tt.begin), more)
			if tt.tar != nil {
				in = endlessTar(t, tt.tar, more)
			}
			_, err := open(t, t.TempDir()).Import(t.Context(), in, func(Manifest) error { return nil })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if read := more.read.Load(); read > 32<<20 {
				t.Errorf("%d bytes were made and read", read)
			}
		})
	}
}

func announce(w *tar.Writer, m Manifest) {
	text, _ := json.Marshal(m)
	tarEntry(w, bundleManifest, text, int64(len(text)))
}

func tarEntry(w *tar.Writer, name string, content []byte, size int64) {
	w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg})
	w.Write(content)
}

// endlessTar compresses the beginning of a tar file, and zeros as long as somebody reads.
func endlessTar(t *testing.T, begin func(*tar.Writer), more *endless) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	go func() {
		z, err := zstd.NewWriter(w)
		if err == nil {
			begin(tar.NewWriter(z))
			_, err = io.Copy(z, more)
		}
		w.CloseWithError(errors.Join(err, z.Close()))
	}()
	return r
}
