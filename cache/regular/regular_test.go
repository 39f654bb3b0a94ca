package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o666), os.Symlink("pipe", at("link")), os.WriteFile(at("file"), []byte("text"), 0o666),
		os.Symlink("file", at("good")), os.Symlink("/dev/null", at("null")), os.Symlink("/dev/zero", at("zero"))); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("unix", at("socket")); err == nil {
		defer l.Close()
	}
	tests := []struct {
		name string
		flag int
		want string // what the error says, "" if there is none
	}{
		{"file", os.O_RDONLY, ""},
		{"good", os.O_RDWR, ""},
		{"null", os.O_RDONLY, ""},
		{"made", os.O_RDWR | os.O_CREATE | os.O_EXCL, ""},
		{"pipe", os.O_RDONLY, "a named pipe"},
		{"pipe", os.O_WRONLY, "a named pipe"},
		{"pipe", os.O_RDWR | os.O_CREATE, "a named pipe"},
		{"link", os.O_RDONLY, "a named pipe"},
		{"socket", os.O_RDONLY, "a socket"},
		{"zero", os.O_RDONLY, "a device"},
		{".", os.O_RDONLY, "is a directory"},
		{"absent", os.O_RDONLY, "no such file"},
	}
	for _, tt := range tests {
		f, err := Open(at(tt.name), tt.flag, 0o666)
		if err == nil {
			f.Close()
		}
		if err == nil != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if kind := strings.HasPrefix(tt.want, "a "); errors.Is(err, ErrKind) != kind {
			t.Errorf("%s: %v is ErrKind: %v", tt.name, err, !kind)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := Append([]byte("a "), name); err != nil || string(b) != "a text" {
		t.Errorf("%q, %v", b, err)
	}
	for most, want := range map[int64]error{3: ErrSize, 4: nil} {
		if b, err := ReadAtMost(name, most); !errors.Is(err, want) || want == nil && string(b) != "text" {
			t.Errorf("at most %d: %q, %v", most, b, err)
		}
	}
	fsys := DirFS{Root: dir, Most: 10}
	if b, err := fs.ReadFile(fsys, "file"); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := fs.ReadFile(fsys, "../file"); err == nil {
		t.Error("a path leads out of the folder")
	}
}
