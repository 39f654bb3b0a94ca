package graph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unsafe"
)

// Packed is a graph in a few arrays, which are the same in memory and in a stored block. Opening
// the block decodes nothing, and Action builds an action only when the caller needs it. It serves
// runs that read a few of very many actions. The arrays are in the byte order of the machine.
type Packed struct {
	deps      adjacency
	consumers adjacency
	users     adjacency // of strings that are paths
	makers    []number  // of each string the action that writes it, or -1
	paths     []number  // strings that are outputs or in use, sorted by text
	offsets   []number  // of strings in text, plus the end of the last
	actions   []number  // offsets in blob
	flags     []byte    // of each action
	text      []byte    // of strings
	blob      []byte    // encoded actions, see codec
	meta      []byte    // data of the caller
}

// number is the number of an action or of a string, or an offset.
type number = ActionID

// sections returns the arrays in the order in which they are stored.
func (p *Packed) sections() ([]*[]number, []*[]byte) {
	return []*[]number{&p.deps.from, &p.deps.to, &p.consumers.from, &p.consumers.to, &p.users.from, &p.users.to,
		&p.makers, &p.paths, &p.offsets, &p.actions}, []*[]byte{&p.flags, &p.text, &p.blob, &p.meta}
}

const packMagic = "kbuild graph 9\r\n"

// Flags of actions.
const (
	flagIntermediate = 1 << iota
	flagManifest
)

// adjacency holds a sorted list of actions for each number, which is that of an action or a string.
type adjacency struct {
	from []number // of each list in to, and the end of the last
	to   []ActionID
}

// newAdjacency makes lists for n numbers of pairs (number, action). It sorts the pairs.
func newAdjacency(n int, pairs []uint64) adjacency {
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	a := adjacency{make([]number, n+1), make([]ActionID, len(pairs))}
	for i, p := range pairs {
		a.from[p>>32+1]++
		a.to[i] = ActionID(p & math.MaxUint32)
	}
	for i := range n {
		a.from[i+1] += a.from[i]
	}
	return a
}

func pairOf(number int, action ActionID) uint64 { return uint64(number)<<32 | uint64(action) }

// of returns the list of a number.
func (a adjacency) of(number int) []ActionID {
	return a.to[a.from[number]:a.from[number+1]:a.from[number+1]]
}

// reach returns ids and everything reachable from them, sorted. If flags are given, it enters only
// actions with flagIntermediate.
func (a adjacency) reach(ids []ActionID, flags []byte) (out []ActionID) {
	seen := make([]bool, len(a.from))
	stack := slices.Clone(ids)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		out = append(out, id)
		for _, next := range a.of(int(id)) {
			if !seen[next] && (flags == nil || flags[next]&flagIntermediate != 0) {
				stack = append(stack, next)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Packer packs a part of a graph.
type Packer struct {
	number        []ActionID // in the packed graph, by ID; -1 for other actions
	outputs, uses []uint64   // pairs (string, action)
	code          codec
	p             Packed
}

// Packer returns a Packer of the actions of ids, which it renumbers. ids must be closed under Deps
// and sorted.
func (g *Graph) Packer(ids []ActionID) *Packer {
	k := &Packer{number: slices.Repeat([]ActionID{-1}, len(g.Actions)), code: codec{numbers: map[string]number{}}}
	k.code.b = make([]byte, 0, 128*len(ids)) // growing leaves as much garbage
	for i, id := range ids {
		k.number[id] = ActionID(i)
	}
	var deps, consumers []uint64
	for i, id := range ids {
		a := *g.Actions[id]
		a.ID = ActionID(i)
		flags := byte(0)
		if a.Intermediate {
			flags |= flagIntermediate
		}
		if a.Kind == Manifest {
			flags |= flagManifest
		}
		k.p.flags, k.p.actions = append(k.p.flags, flags), append(k.p.actions, number(len(k.code.b)))
		k.code.value(reflect.ValueOf(&a).Elem())
		for _, o := range a.Outputs {
			k.outputs = append(k.outputs, pairOf(int(k.code.str(o)), a.ID))
		}
		for _, d := range g.Deps(id) {
			if k.number[d] < 0 {
				panic(fmt.Sprintf("BUG: packing %s without %s", a.Name, g.Actions[d].Name))
			}
			deps, consumers = append(deps, pairOf(i, k.number[d])), append(consumers, pairOf(int(k.number[d]), a.ID))
		}
	}
	k.p.deps, k.p.consumers = newAdjacency(len(ids), deps), newAdjacency(len(ids), consumers)
	return k
}

// Use records that an action depends on a path that need not be among its Inputs: a discovered
// header, or a path that must stay absent.
func (k *Packer) Use(path string, id ActionID) {
	if n := k.number[id]; n >= 0 {
		k.uses = append(k.uses, pairOf(int(k.code.str(path)), n))
	}
}

// Pack returns the packed graph for Unpack, with data of the caller.
func (k *Packer) Pack(meta []byte) ([]byte, error) {
	p, list := &k.p, k.code.list
	k.code.numbers = nil // all strings are known, and the rest needs the memory
	p.blob, p.meta = k.code.b, meta
	p.users = newAdjacency(len(list), k.uses)
	p.makers = slices.Repeat([]number{-1}, len(list))
	for _, o := range k.outputs {
		p.makers[o>>32] = number(o & math.MaxUint32)
	}
	size := 0
	for i, s := range list {
		p.offsets = append(p.offsets, number(size))
		if size += len(s); p.makers[i] >= 0 || len(p.users.of(i)) > 0 {
			p.paths = append(p.paths, number(i))
		}
	}
	p.offsets = append(p.offsets, number(size))
	slices.SortFunc(p.paths, func(a, b number) int { return strings.Compare(list[a], list[b]) })
	p.text = make([]byte, 0, size)
	for _, s := range list {
		p.text = append(p.text, s...)
	}
	numbers, texts := p.sections()
	parts := [][]byte{[]byte(packMagic)}
	for _, l := range numbers {
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*l))), 4*len(*l))
		parts = append(parts, binary.LittleEndian.AppendUint32(nil, uint32(len(*l))), raw)
	}
	for _, l := range texts {
		parts = append(parts, binary.LittleEndian.AppendUint32(nil, uint32(len(*l))), *l)
	}
	out := bytes.Join(parts, nil)
	if len(out) > math.MaxInt32 {
		return nil, errors.New("too large a graph to pack")
	}
	return out, nil
}

// Unpack opens a packed graph. The caller must not change data, whose checksum is correct, and which
// starts at a multiple of 4 in memory.
func Unpack(data []byte) (*Packed, error) {
	rest, ok := bytes.CutPrefix(data, []byte(packMagic))
	if !ok {
		return nil, errors.New("not a packed graph of this version")
	}
	p := &Packed{}
	numbers, texts := p.sections()
	for _, l := range numbers {
		n := binary.LittleEndian.Uint32(rest)
		*l = unsafe.Slice((*number)(unsafe.Pointer(unsafe.SliceData(rest[4:]))), n)
		rest = rest[4+4*n:]
	}
	for _, l := range texts {
		n := binary.LittleEndian.Uint32(rest)
		*l, rest = rest[4:4+n], rest[4+n:]
	}
	return p, nil
}

// Meta returns the caller's data that was packed with the graph.
func (p *Packed) Meta() []byte { return p.meta }

// Len returns the number of actions.
func (p *Packed) Len() int { return len(p.actions) }

func (p *Packed) str(n number) string { return string(p.text[p.offsets[n]:p.offsets[n+1]]) }

// find returns the number of a path. ok is false if it is neither an output nor in use.
func (p *Packed) find(path string) (n number, ok bool) {
	i, ok := sort.Find(len(p.paths), func(i int) int { return strings.Compare(path, p.str(p.paths[i])) })
	if ok {
		n = p.paths[i]
	}
	return n, ok
}

// Producer returns the action that writes path.
func (p *Packed) Producer(path string) (ActionID, bool) {
	n, ok := p.find(path)
	if !ok || p.makers[n] < 0 {
		return 0, false
	}
	return p.makers[n], true
}

// Users returns the actions that were packed as depending on a path.
func (p *Packed) Users(path string) []ActionID {
	n, ok := p.find(path)
	if !ok {
		return nil
	}
	return p.users.of(int(n))
}

// Needs reports whether id depends on dep, directly or transitively.
func (p *Packed) Needs(id, dep ActionID) bool {
	return id != dep && slices.Contains(p.deps.reach([]ActionID{id}, nil), dep)
}

// Affected returns ids with their transitive dependents (up), and those with the intermediates that
// they need; both sorted. A manifest describes everything that its artifacts are made from, so
// withParts includes all dependencies of manifests.
func (p *Packed) Affected(ids []ActionID) (up, withParts []ActionID) {
	up = p.consumers.reach(ids, nil)
	manifests := slices.DeleteFunc(slices.Clone(up), func(id ActionID) bool { return p.flags[id]&flagManifest == 0 })
	return up, p.deps.reach(slices.Concat(up, p.deps.reach(manifests, nil)), p.flags)
}

// Action decodes an action.
func (p *Packed) Action(id ActionID) *Action {
	a := &Action{}
	c := codec{b: p.blob[p.actions[id]:], from: p}
	c.value(reflect.ValueOf(a).Elem())
	return a
}

// codec encodes values: a string as its number, any other number as a varint, a list as its length
// and its values, a pointer as its presence. It decodes them if from is set. It uses reflection, so
// that it never omits a field of an action.
type codec struct {
	b       []byte
	from    *Packed
	list    []string          // when encoding: strings, by their numbers
	numbers map[string]number // the reverse
}

// str returns the number of a string.
func (c *codec) str(s string) number {
	n, ok := c.numbers[s]
	if !ok {
		n = number(len(c.list))
		c.numbers[s], c.list = n, append(c.list, s)
	}
	return n
}

// number encodes n, or decodes a number.
func (c *codec) number(n uint64) uint64 {
	if c.from == nil {
		c.b = binary.AppendUvarint(c.b, n)
		return n
	}
	n, size := binary.Uvarint(c.b)
	c.b = c.b[size:]
	return n
}

func (c *codec) bool(is bool) bool {
	if is {
		return c.number(1) != 0
	}
	return c.number(0) != 0
}

// value encodes v, or decodes a value into v, which is zero.
func (c *codec) value(v reflect.Value) {
	switch decode := c.from != nil; v.Kind() {
	case reflect.String:
		if decode {
			v.SetString(c.from.str(number(c.number(0))))
		} else {
			c.number(uint64(c.str(v.String())))
		}
	case reflect.Bool:
		if is := c.bool(v.Bool()); decode {
			v.SetBool(is)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n := c.number(uint64(v.Int())); decode {
			v.SetInt(int64(n))
		}
	case reflect.Slice:
		if n := int(c.number(uint64(v.Len()))); decode && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		n := int(c.number(uint64(len(keys))))
		if decode && n > 0 {
			v.Set(reflect.MakeMapWithSize(v.Type(), n))
		}
		for i := range n {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if !decode {
				key, val = keys[i], v.MapIndex(keys[i])
			}
			c.value(key)
			c.value(val)
			if decode {
				v.SetMapIndex(key, val)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.value(v.Field(i))
		}
	case reflect.Pointer:
		is := c.bool(!v.IsNil())
		if decode && is {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if is {
			c.value(v.Elem())
		}
	default:
		panic("BUG: an action has a field of type " + v.Type().String() + ", which is not packed")
	}
}
