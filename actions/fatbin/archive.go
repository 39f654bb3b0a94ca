package fatbin

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// readArchive finds the members of a GNU or BSD archive that hold device code.
func readArchive(data []byte) (File, error) {
	f := File{Kind: Archive}
	members, err := splitArchive(data)
	if err != nil {
		return f, err
	}
	for _, member := range members {
		if len(member.content) < 4 || string(member.content[:4]) != "\x7fELF" {
			continue // not an object: an import stub, a text
		}
		object, err := readELF(member.content)
		if err != nil {
			return f, fmt.Errorf("member %s: %w", member.name, err)
		}
		for _, m := range object.Members {
			m.Name = member.name
			f.Members = append(f.Members, m)
		}
	}
	return f, nil
}

const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
)

// ArchiveForLink returns the static library that nvlink reads instead of archive in the device link
// for code. It has ForLink's objects instead of the originals, in the same order. Members that
// ForLink rejects are kept unchanged. Host objects are omitted: one of them would keep nvlink from
// removing unreferenced code. HostSymbols reports what they refer to. The symbol index is omitted
// as well: it names host code, and nvlink does not read it. Times and owners are 0, as with `ar D`.
func ArchiveForLink(archive []byte, code gencode.Code) ([]byte, error) {
	members, err := splitArchive(archive)
	if err != nil {
		return nil, err
	}
	var kept []archiveMember
	for _, m := range members {
		if isHostOnly(m.content) {
			continue
		}
		if thin, err := ForLink(m.content, code); err == nil {
			m.content = thin
		}
		kept = append(kept, m)
	}
	return joinArchive(kept), nil
}

// isHostOnly reports whether content is an object, or clang's bitcode, without anything for nvlink.
func isHostOnly(content []byte) bool {
	if bytes.HasPrefix(content, bitcodeMagic) {
		return true
	}
	o, err := parseRelocatable(content)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(o.sections, func(s objectSection) bool {
		return s.label == linkableSection || s.label == wrapperSection || s.label == "__nv_module_id"
	})
}

// joinArchive is the reverse of splitArchive.
func joinArchive(members []archiveMember) []byte {
	var names bytes.Buffer // of members whose names do not fit into their headers
	headers := make([]string, len(members))
	for i, m := range members {
		headers[i] = m.name + "/"
		if len(headers[i]) > 16 || strings.Contains(m.name, "/") || m.name == "" {
			headers[i] = "/" + strconv.Itoa(names.Len())
			names.WriteString(m.name + "/\n")
		}
	}
	out := []byte(arMagic)
	if names.Len() > 0 {
		out = appendMember(out, "//", names.Bytes())
	}
	for i, m := range members {
		blank := strings.Repeat(" ", 16-len(headers[i])) // count bytes; Sprintf would count letters
		out = appendMember(out, headers[i]+blank+"0           0     0     644     ", m.content)
	}
	return out
}

// appendMember appends a member. head is its header before the size; for the name table it is only
// the name.
func appendMember(out []byte, head string, content []byte) []byte {
	out = append(append(out, head...), strings.Repeat(" ", 48-len(head))...)
	out = fmt.Appendf(out, "%-10d`\n", len(content))
	out = append(out, content...)
	if len(content)%2 != 0 {
		out = append(out, '\n')
	}
	return out
}

// archiveMember is one file of an archive. Its content is a slice of the archive.
type archiveMember struct {
	name    string
	content []byte
}

// splitArchive returns the members of a GNU or BSD archive, without indexes and name tables.
func splitArchive(archive []byte) ([]archiveMember, error) {
	switch {
	case bytes.HasPrefix(archive, []byte("!<thin>\n")):
		return nil, errors.New("it is a thin archive, which holds names instead of objects")
	case !bytes.HasPrefix(archive, []byte(arMagic)):
		return nil, errors.New("it is no archive")
	}
	var members []archiveMember
	var longNames []byte
	for off := len(arMagic); off < len(archive); {
		h := archive[off:]
		if len(h) < arHeaderSize || string(h[58:60]) != "`\n" {
			return nil, fmt.Errorf("the archive is damaged at %d", off)
		}
		size, err := strconv.ParseUint(strings.TrimRight(string(h[48:58]), " "), 10, 63)
		if err != nil || size > uint64(len(h)-arHeaderSize) {
			return nil, fmt.Errorf("the archive is damaged at %d", off)
		}
		name, content := strings.TrimRight(string(h[:16]), " "), h[arHeaderSize:arHeaderSize+int(size)]
		off += arHeaderSize + int(size) + int(size%2)
		switch {
		case name == "//":
			longNames = content
			continue
		case name == "/" || name == "/SYM64/" || strings.HasPrefix(name, "__.SYMDEF"):
			continue
		}
		if name, content, err = fullName(name, content, longNames); err != nil {
			return nil, err
		}
		if strings.ContainsAny(name, "\n\x00") {
			return nil, fmt.Errorf("the archive's member %q has no name that another archive could hold", name)
		}
		if !strings.HasPrefix(name, "__.SYMDEF") {
			members = append(members, archiveMember{name, content})
		}
	}
	return members, nil
}

// fullName resolves "/123" in the table of long names, and BSD's "#1/20", where the name precedes
// the content.
func fullName(name string, content, longNames []byte) (string, []byte, error) {
	if at, ok := strings.CutPrefix(name, "/"); ok {
		n, err := strconv.ParseUint(at, 10, 31)
		if err != nil || n >= uint64(len(longNames)) {
			return "", nil, fmt.Errorf("the archive's member %q has no name", name)
		}
		line, _, _ := strings.Cut(string(longNames[n:]), "\n")
		return strings.TrimSuffix(line, "/"), content, nil
	}
	if length, ok := strings.CutPrefix(name, "#1/"); ok {
		n, err := strconv.ParseUint(length, 10, 31)
		if err != nil || n > uint64(len(content)) {
			return "", nil, fmt.Errorf("the archive's member %q has no name", name)
		}
		return strings.TrimRight(string(content[:n]), "\x00"), content[n:], nil
	}
	return strings.TrimSuffix(name, "/"), content, nil
}
