package modules

import (
	"encoding/binary"
	"errors"
)

var errMessagePack = errors.New("it is no MessagePack, or cut short")

const maxNesting = 16

// decodeMessagePack decodes one value to the types of encoding/json, with int64 for numbers: nil,
// bool, int64, string, []any, map[string]any. It rejects floating-point numbers, binary data and
// extensions, which the metadata of code objects never has.
func decodeMessagePack(b []byte) (any, error) {
	d := messagePack{b}
	v, ok := d.value(0)
	if !ok {
		return nil, errMessagePack
	}
	return v, nil
}

type messagePack struct{ rest []byte }

// take returns the next n bytes.
func (d *messagePack) take(n int) ([]byte, bool) {
	if n > len(d.rest) {
		return nil, false
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b, true
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (d *messagePack) number(size int) (uint64, bool) {
	b, ok := d.take(size)
	if !ok {
		return 0, false
	}
	var full [8]byte
	copy(full[8-size:], b)
	return binary.BigEndian.Uint64(full[:]), true
}

func (d *messagePack) value(depth int) (any, bool) {
	head, ok := d.take(1)
	if !ok || depth > maxNesting {
		return nil, false
	}
	switch c := head[0]; {
	case c < 0x80:
		return int64(c), true
	case c < 0x90:
		return d.mapOf(uint64(c&0x0f), depth)
	case c < 0xa0:
		return d.listOf(uint64(c&0x0f), depth)
	case c < 0xc0:
		return d.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, true
	case c == 0xc2 || c == 0xc3:
		return c == 0xc3, true
	case c >= 0xcc && c <= 0xcf:
		n, ok := d.number(1 << (c - 0xcc))
		return int64(n), ok && n < 1<<63
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		n, ok := d.number(size)
		return int64(n<<(64-8*size)) >> (64 - 8*size), ok
	case c >= 0xd9 && c <= 0xdb:
		return d.sized(c-0xd9, depth, func(n uint64, _ int) (any, bool) { return d.text(n) })
	case c == 0xdc || c == 0xdd:
		return d.sized(c-0xdc+1, depth, d.listOf)
	case c == 0xde || c == 0xdf:
		return d.sized(c-0xde+1, depth, d.mapOf)
	case c >= 0xe0:
		return int64(int8(c)), true
	}
	return nil, false
}

// sized reads a length of 1<<log bytes, and passes it to read.
func (d *messagePack) sized(log byte, depth int, read func(uint64, int) (any, bool)) (any, bool) {
	n, ok := d.number(1 << log)
	if !ok || n > uint64(len(d.rest)) { // every element takes a byte
		return nil, false
	}
	return read(n, depth)
}

func (d *messagePack) text(n uint64) (any, bool) {
	b, ok := d.take(int(n))
	return string(b), ok
}

func (d *messagePack) listOf(n uint64, depth int) (any, bool) {
	list := []any{}
	for range n {
		v, ok := d.value(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}

func (d *messagePack) mapOf(n uint64, depth int) (any, bool) {
	m := map[string]any{}
	for range n {
		key, ok := d.value(depth + 1)
		name, isText := key.(string)
		if !ok || !isText {
			return nil, false
		}
		if m[name], ok = d.value(depth + 1); !ok {
			return nil, false
		}
	}
	return m, true
}
