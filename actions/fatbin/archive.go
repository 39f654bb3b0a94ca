package fatbin

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readArchive walks a GNU or BSD ar archive and keeps the members that hold device code.
func readArchive(r io.ReaderAt, size int64) (File, error) {
	f := File{Kind: Archive}
	var longNames string
	var h [60]byte
	for off := int64(8); off < size; {
		if off+60 > size {
			return f, fmt.Errorf("the archive is cut short at %d", off)
		}
		if _, err := r.ReadAt(h[:], off); err != nil {
			return f, fmt.Errorf("archive member at %d: %w", off, err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || string(h[58:60]) != "`\n" || n < 0 || n > size-off-60 {
			return f, fmt.Errorf("the archive is damaged at %d", off)
		}
		body := io.NewSectionReader(r, off+60, n)
		name := strings.TrimRight(string(h[:16]), " ")
		off += 60 + n + n%2
		switch {
		case name == "/" || name == "/SYM64/" || strings.HasPrefix(name, "__.SYMDEF"):
			continue
		case name == "//":
			if longNames, err = readNames(body, n); err != nil {
				return f, err
			}
			continue
		}
		name, body = memberName(name, longNames, body)
		m, err := readMember(name, body)
		if err != nil {
			return f, err
		}
		if m.Images != nil || m.Relocatable {
			f.Members = append(f.Members, m)
		}
	}
	return f, nil
}

func readNames(body *io.SectionReader, n int64) (string, error) {
	if n > 64<<20 {
		return "", errors.New("the archive's table of names is larger than any real one")
	}
	text := make([]byte, n)
	_, err := body.ReadAt(text, 0)
	if err == io.EOF {
		err = nil
	}
	return string(text), err
}

// memberName resolves "/123" in the table of long names, and BSD's "#1/20", where the name precedes
// the content.
func memberName(name, longNames string, body *io.SectionReader) (string, *io.SectionReader) {
	if at, err := strconv.Atoi(strings.TrimPrefix(name, "/")); err == nil && strings.HasPrefix(name, "/") && at >= 0 && at < len(longNames) {
		name, _, _ = strings.Cut(longNames[at:], "\n")
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(name, "#1/"), 10, 64); err == nil && strings.HasPrefix(name, "#1/") && n >= 0 && n < 4096 && n <= body.Size() {
		text := make([]byte, n)
		body.ReadAt(text, 0)
		return strings.TrimRight(string(text), "\x00"), io.NewSectionReader(body, n, body.Size()-n)
	}
	return strings.TrimSuffix(name, "/"), body
}

func readMember(name string, body *io.SectionReader) (Member, error) {
	var magic [4]byte
	if n, _ := body.ReadAt(magic[:], 0); n < 4 || string(magic[:]) != "\x7fELF" {
		return Member{Name: name}, nil // not an object: an import stub, a text
	}
	f, err := readELF(body, body.Size())
	if err != nil {
		return Member{}, fmt.Errorf("member %s: %w", name, err)
	}
	if len(f.Members) == 0 {
		return Member{Name: name}, nil
	}
	m := f.Members[0]
	m.Name = name
	return m, nil
}
