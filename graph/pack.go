package graph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unsafe"
)

// A Packed graph is a graph in one flat block of memory. Opening it costs a checksum, and Action
// builds an action only when the caller needs it. It serves runs that read a few of very many
// actions.
//
// Layout, little-endian, all numbers uint32 unless stated otherwise:
//
//	magic, 16 bytes; CRC-32C of the rest; the lengths of what follows
//	offsets of actions; a bit for each action that is an intermediate;
//	numbers of the actions that are manifests of modules
//	deps of each action (offsets, then numbers); consumers of each (the same)
//	outputs and uses: pairs (string, action), sorted by the string's text and the action's number
//	offsets of strings; text of strings; packed actions: see packer; data of the caller
type Packed struct {
	actions   []uint32
	parts     []uint32
	manifests []uint32
	deps      adjacency
	consumers adjacency
	outputs   pairs
	uses      pairs
	offsets   []uint32 // of strings, plus the end of the last
	text      []byte
	blob      []byte
	meta      []byte
}

// Use records that an action depends on a path that need not be among its Inputs: a discovered
// header, or a path that must stay absent.
type Use struct {
	Path   string
	Action ActionID
}

const packMagic = "kbuild graph 7\r\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errPacked = errors.New("damaged graph")

// adjacency holds a list of numbers for each action.
type adjacency struct{ from, to []uint32 }

// pairs holds (string, action) pairs, two numbers each.
type pairs []uint32

func (p pairs) Len() int { return len(p) / 2 }

// Pack packs the actions of ids, which must be closed under Deps and sorted, and renumbers them. It
// calls meta after the last use; the result is stored for the caller.
func (g *Graph) Pack(ids []ActionID, uses iter.Seq[Use], meta func() ([]byte, error)) ([]byte, error) {
	p := &packer{ids: map[string]uint32{}}
	number := make([]uint32, len(g.Actions))
	for i, id := range ids {
		number[id] = uint32(i) + 1
	}
	var manifests, df, dt []uint32
	// With spare capacity, since growing leaves as much garbage.
	actions, blob := make([]uint32, 0, len(ids)), make([]byte, 0, 128*len(ids))
	parts := make([]uint32, (len(ids)+31)/32)
	outputs := make([]uint64, 0, len(ids))
	for i, id := range ids {
		a := *g.Actions[id]
		a.ID = ActionID(i)
		actions = append(actions, uint32(len(blob)))
		if a.Intermediate {
			parts[i/32] |= 1 << (i % 32)
		}
		if a.Kind == Manifest {
			manifests = append(manifests, uint32(i))
		}
		blob = p.value(blob, reflect.ValueOf(a))
		df = append(df, uint32(len(dt)))
		for _, d := range g.Deps(id) {
			if number[d] == 0 {
				return nil, fmt.Errorf("BUG: packing %s without %s", a.Name, g.Actions[d].Name)
			}
			dt = append(dt, number[d]-1)
		}
		for _, o := range a.Outputs {
			outputs = append(outputs, p.pair(o, uint32(i)))
		}
	}
	df = append(df, uint32(len(dt)))
	used := make([]uint64, 0, 2*len(ids))
	for u := range uses {
		if n := number[u.Action]; n > 0 {
			used = append(used, p.pair(u.Path, n-1))
		}
	}
	m, err := meta()
	if err != nil {
		return nil, err
	}
	p.ids = nil // all strings are known, and the rest needs the memory
	cf, ct := reverse(df, dt)
	return assemble([][]uint32{actions, parts, manifests, df, dt, cf, ct, p.pairs(outputs), p.pairs(used)}, p.list, [][]byte{blob, m})
}

// assemble writes the lengths of all lists, then the lists. The offsets of the strings and their
// text are between numbers and texts.
func assemble(numbers [][]uint32, list []string, texts [][]byte) ([]byte, error) {
	offsets, length := make([]uint32, 0, len(list)+1), 0
	for _, s := range list {
		offsets = append(offsets, uint32(length))
		length += len(s)
	}
	numbers = append(numbers, append(offsets, uint32(length)))
	b := make([]byte, len(packMagic)+4)
	copy(b, packMagic)
	size := 0
	for _, l := range numbers {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(l)))
		size += 4 * len(l)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	size += length
	for _, l := range texts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(l)))
		size += len(l)
	}
	if size > math.MaxUint32 {
		return nil, errors.New("too large a graph to pack")
	}
	b = slices.Grow(b, size)
	for _, l := range numbers {
		for _, n := range l {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	for _, s := range list {
		b = append(b, s...)
	}
	for _, l := range texts {
		b = append(b, l...)
	}
	binary.LittleEndian.PutUint32(b[len(packMagic):], crc32.Checksum(b[len(packMagic)+4:], castagnoli))
	return b, nil
}

// reverse inverts the adjacency: the list of an action becomes the actions whose lists contain it.
func reverse(from, to []uint32) (rfrom, rto []uint32) {
	rfrom, rto = make([]uint32, len(from)), make([]uint32, len(to))
	for _, n := range to {
		rfrom[n+1]++
	}
	for i := range len(rfrom) - 1 {
		rfrom[i+1] += rfrom[i]
	}
	next := slices.Clone(rfrom)
	for i := range len(from) - 1 {
		for _, n := range to[from[i]:from[i+1]] {
			rto[next[n]] = uint32(i)
			next[n]++
		}
	}
	return rfrom, rto
}

// packer encodes values: a string as its number, any other number as a varint, a list as its length
// and its values, a pointer as its presence. It uses reflection, so that it never omits a field of
// an action.
type packer struct {
	ids  map[string]uint32
	list []string
}

func (p *packer) str(s string) uint32 {
	id, ok := p.ids[s]
	if !ok {
		id = uint32(len(p.list))
		p.ids[s] = id
		p.list = append(p.list, s)
	}
	return id
}

// pair encodes a string and an action in one number.
func (p *packer) pair(s string, action uint32) uint64 { return uint64(p.str(s))<<32 | uint64(action) }

// pairs sorts list by text, so that paths can be searched. Each text is compared once; the list is
// sorted by rank.
func (p *packer) pairs(list []uint64) []uint32 {
	var texts []uint32
	rank := make([]uint32, len(p.list))
	for _, u := range list {
		if id := uint32(u >> 32); rank[id] == 0 {
			rank[id] = 1
			texts = append(texts, id)
		}
	}
	slices.SortFunc(texts, func(a, b uint32) int { return strings.Compare(p.list[a], p.list[b]) })
	for i, id := range texts {
		rank[id] = uint32(i)
	}
	for i, u := range list {
		list[i] = uint64(rank[u>>32])<<32 | u&math.MaxUint32
	}
	slices.Sort(list)
	list = slices.Compact(list)
	out := make([]uint32, 0, 2*len(list))
	for _, u := range list {
		out = append(out, texts[u>>32], uint32(u))
	}
	return out
}

func (p *packer) value(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return binary.AppendUvarint(b, uint64(p.str(v.String())))
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = p.value(b, v.Index(i))
		}
		return b
	case reflect.Map:
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, k := range keys {
			b = p.value(p.value(b, k), v.MapIndex(k))
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = p.value(b, v.Field(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return p.value(append(b, 1), v.Elem())
	}
	panic("BUG: an action has a field of type " + v.Type().String() + ", which is not packed")
}

// Unpack opens a packed graph. The caller must not change data.
func Unpack(data []byte) (*Packed, error) {
	const lists, texts = 10, 3
	head := len(packMagic) + 4 + 4*(lists+texts)
	if len(data) < head || string(data[:len(packMagic)]) != packMagic ||
		crc32.Checksum(data[len(packMagic)+4:], castagnoli) != binary.LittleEndian.Uint32(data[len(packMagic):]) {
		return nil, errPacked
	}
	length := func(i int) int { return int(binary.LittleEndian.Uint32(data[len(packMagic)+4+4*i:])) }
	rest := data[head:]
	g := &Packed{}
	for i, l := range []*[]uint32{&g.actions, &g.parts, &g.manifests, &g.deps.from, &g.deps.to, &g.consumers.from, &g.consumers.to, (*[]uint32)(&g.outputs), (*[]uint32)(&g.uses), &g.offsets} {
		n := length(i)
		if 4*n > len(rest) {
			return nil, errPacked
		}
		*l, rest = numbers(rest[:4*n]), rest[4*n:]
	}
	for i, l := range []*[]byte{&g.text, &g.blob, &g.meta} {
		n := length(lists + i)
		if n > len(rest) {
			return nil, errPacked
		}
		*l, rest = rest[:n], rest[n:]
	}
	if len(rest) != 0 {
		return nil, errPacked
	}
	return g, nil
}

// Meta returns the caller's data that was packed with the graph.
func (g *Packed) Meta() []byte { return g.meta }

// Len returns the number of actions.
func (g *Packed) Len() int { return len(g.actions) }

func (g *Packed) str(id uint32) string { return string(g.bytes(id)) }

func (g *Packed) bytes(id uint32) []byte { return g.text[g.offsets[id]:g.offsets[id+1]] }

// find returns the actions paired with a path.
func (g *Packed) find(p pairs, path string) []ActionID {
	i, _ := sort.Find(p.Len(), func(i int) int { return strings.Compare(path, g.str(p[2*i])) })
	var out []ActionID
	for ; i < p.Len() && string(g.bytes(p[2*i])) == path; i++ {
		out = append(out, ActionID(p[2*i+1]))
	}
	return out
}

// Producer returns the action that writes path.
func (g *Packed) Producer(path string) (ActionID, bool) {
	ids := g.find(g.outputs, path)
	if len(ids) == 0 {
		return 0, false
	}
	return ids[0], true
}

// Users returns the actions that were packed as depending on a path.
func (g *Packed) Users(path string) []ActionID { return g.find(g.uses, path) }

// Needs reports whether id depends on dep, directly or transitively.
func (g *Packed) Needs(id, dep ActionID) bool {
	return slices.Contains(g.reach(g.deps, []ActionID{id}, func(ActionID) bool { return true }), dep) && id != dep
}

// Affected returns ids with their transitive dependents (up), and those with the intermediates that
// they need; both sorted. A manifest describes everything that its artifacts are made from, so
// withParts includes all dependencies of manifests.
func (g *Packed) Affected(ids []ActionID) (up, withParts []ActionID) {
	all := func(ActionID) bool { return true }
	up = g.reach(g.consumers, ids, all)
	from := slices.Clone(up)
	for _, m := range g.manifests {
		if _, ok := slices.BinarySearch(up, ActionID(m)); ok {
			from = append(from, g.reach(g.deps, []ActionID{ActionID(m)}, all)...)
		}
	}
	return up, g.reach(g.deps, from, func(id ActionID) bool { return g.parts[id/32]>>(id%32)&1 != 0 })
}

// reach returns ids and everything reachable from them through actions that also accepts, sorted.
func (g *Packed) reach(along adjacency, ids []ActionID, also func(ActionID) bool) []ActionID {
	seen := map[ActionID]bool{}
	stack := slices.Clone(ids)
	for _, id := range ids {
		seen[id] = true
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, n := range along.to[along.from[id]:along.from[id+1]] {
			if next := ActionID(n); !seen[next] && also(next) {
				seen[next] = true
				stack = append(stack, next)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Action decodes an action.
func (g *Packed) Action(id ActionID) *Action {
	a := &Action{}
	u := unpacker{g: g, b: g.blob[g.actions[id]:]}
	u.value(reflect.ValueOf(a).Elem())
	return a
}

// unpacker is the reverse of packer.
type unpacker struct {
	g *Packed
	b []byte
}

func (u *unpacker) uvarint() uint64 {
	n, k := binary.Uvarint(u.b)
	u.b = u.b[k:]
	return n
}

func (u *unpacker) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(u.g.str(uint32(u.uvarint())))
	case reflect.Bool:
		v.SetBool(u.b[0] != 0)
		u.b = u.b[1:]
	case reflect.Int, reflect.Int64:
		n, k := binary.Varint(u.b)
		u.b = u.b[k:]
		v.SetInt(n)
	case reflect.Slice:
		n := int(u.uvarint())
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			u.value(v.Index(i))
		}
	case reflect.Map:
		n := int(u.uvarint())
		if n == 0 {
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
		for range n {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			u.value(key)
			u.value(val)
			v.SetMapIndex(key, val)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			u.value(v.Field(i))
		}
	case reflect.Pointer:
		there := u.b[0] != 0
		u.b = u.b[1:]
		if there {
			v.Set(reflect.New(v.Type().Elem()))
			u.value(v.Elem())
		}
	}
}

// numbers returns b as numbers, without a copy if the machine's byte order and the alignment allow
// it.
func numbers(b []byte) []uint32 {
	if len(b) == 0 {
		return nil
	}
	one := uint16(1)
	little := *(*byte)(unsafe.Pointer(&one)) == 1
	if little && uintptr(unsafe.Pointer(&b[0]))%4 == 0 {
		return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
	}
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}
