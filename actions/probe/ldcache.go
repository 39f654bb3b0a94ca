package probe

import (
	"bytes"
	"encoding/binary"
)

// The index of ldconfig, /etc/ld.so.cache, has a header of 48 bytes, entries of 24, and text. The
// entries point into the text by offsets from the header. Numbers are in the byte order of the
// machine. See glibc's sysdeps/generic/dl-cache.h.
const (
	ldCacheMagic  = "glibc-ld.so.cache1.1" // an index in the format from before 2000 may precede it
	ldCacheHeader = 48
	ldCacheEntry  = 24
)

// readLDCache returns the files of an index of ldconfig by library name, in the order of the index.
// It returns what it can read of a truncated index, and nothing for another file.
func readLDCache(text []byte) map[string][]string {
	files := map[string][]string{}
	start := bytes.Index(text, []byte(ldCacheMagic))
	if start < 0 || len(text) < start+ldCacheHeader {
		return files
	}
	text = text[start:]
	word := func(at int) int { return int(binary.NativeEndian.Uint32(text[at:])) }
	at := ldCacheHeader
	for n := word(len(ldCacheMagic)); n > 0 && at+ldCacheEntry <= len(text); n-- {
		name, file := textAt(text, word(at+4)), textAt(text, word(at+8))
		if name != "" && file != "" {
			files[name] = append(files[name], file)
		}
		at += ldCacheEntry
	}
	return files
}

// textAt returns the zero-terminated text at an offset, or "" outside of the file.
func textAt(text []byte, at int) string {
	if at >= len(text) {
		return ""
	}
	s, _, ok := bytes.Cut(text[at:], []byte{0})
	if !ok {
		return ""
	}
	return string(s)
}
