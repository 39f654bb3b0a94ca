package manifest

import (
	"maps"
	"slices"
)

// The language is data: Schema says which blocks there are, which attributes they hold, of which
// type, and what each becomes. The decoder refuses what is not in it and panics if it is asked for
// an attribute that is not; the reference (docs/manifest.md, kbuild explain, man pages, the JSON
// schema) is written from it. A test gives every attribute a value of another type, which fails
// where no code reads it.
//
// Texts are sentences with `code` in backquotes.

// Block describes a kind of block.
type Block struct {
	Name       string
	Label      string // what its label is, "" if it has none
	Text, See  string // See is a page of docs
	Example    string // a whole block; "" for one whose example stands in its parent
	Attributes []Attribute
	Open       string // not "": any attribute is fine, and it is one of these
	Blocks     []*Block
	Once       bool   // may be written once in a manifest (or in its block, when nested)
	Target     bool   // references and the command line may name it
	Inherits   string // whose values an attribute has that is Inherited and not written: "defaults", "the target", or "" for none
}

// Attribute describes an attribute of a block, or a key of a map.
type Attribute struct {
	Name      string
	Type      Type
	Words     []string // the values that it may have, where they are few
	Min, Max  int64    // of a number
	Required  bool
	Reserved  bool   // it parses, and the answer is that it is not built yet
	Default   string // what holds where nothing is written or inherited
	Inherited bool   // from what Inherits of the block says
	Text      string
	Example   string // a line of a manifest
	Becomes   string // the part before the first semicolon holds for the example, with nvcc and gcc
	See       string // a page of docs
	Keys      []Attribute
}

// Type is what values an attribute takes.
type Type string

const (
	StringType     Type = "string"
	BoolType       Type = "bool"
	NumberType     Type = "number"
	SizeType       Type = "size"                      // "4GiB", or a number of bytes
	DurationType   Type = "duration"                  // "90s", or a number of seconds
	StandardType   Type = "string or list of strings" // of std
	StringsType    Type = "list of strings"
	StringMapType  Type = "map of strings"
	ReferenceType  Type = "reference"
	ReferencesType Type = "list of references"
	ListsType      Type = "map of lists"
	MapsType       Type = "list of maps"
	EachType       Type = "list of strings or map" // of for_each
	KeysType       Type = "map"                    // with the keys that Keys lists
	TypeType       Type = "type"
	AnyType        Type = "any value"
)

// Attribute gives the attribute of a name, nil if there is none.
func (b *Block) Attribute(name string) *Attribute {
	for i := range b.Attributes {
		if b.Attributes[i].Name == name {
			return &b.Attributes[i]
		}
	}
	return nil
}

// Block gives the nested block of a name, nil if there is none.
func (b *Block) Block(name string) *Block {
	for _, n := range b.Blocks {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func attributeNames(list []Attribute) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}

func (b *Block) attributeNames() []string { return attributeNames(b.Attributes) }

func (b *Block) blockNames() []string {
	var out []string
	for _, n := range b.Blocks {
		out = append(out, n.Name)
	}
	return out
}

// targetKinds are the blocks that references and the command line may name.
func targetKinds() (names []string) {
	for _, b := range Schema().Blocks {
		if b.Target {
			names = append(names, b.Name)
		}
	}
	return names
}

func isTarget(kind string) bool {
	b := Schema().Block(kind)
	return b != nil && b.Target
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// shape is how a value of an attribute looks.
func (a *Attribute) shape() string {
	if a == nil {
		return "..."
	}
	switch a.Type {
	case StringsType, ReferencesType, MapsType:
		return "[ ... ]"
	case StringType, StandardType:
		return `"..."`
	case StringMapType, ListsType, KeysType:
		return "{ ... }"
	}
	return "..."
}
