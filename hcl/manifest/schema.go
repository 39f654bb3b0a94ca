package manifest

import (
	"maps"
	"slices"
)

// The language is data: Schema describes the blocks, their attributes, the types, and what each
// attribute becomes. Unknown names are rejected. The reference (docs/manifest.md, kbuild explain,
// man pages, the JSON schema) is generated from it. A test sets every attribute to a value of
// another type, to find attributes that no code reads.
//
// Texts are sentences with `code` in backquotes.

// Block describes one kind of block.
type Block struct {
	Name       string
	Label      string // meaning of its label; "" if it has no label
	Text, See  string // See is a page of docs
	Example    string // a complete block; "" if the parent's example contains it
	Attributes []Attribute
	Open       string // if not "": any attribute name is valid, and this describes them
	Blocks     []*Block
	Once       bool // at most one per manifest, or per parent block if nested
	Root       bool // for the whole project: an imported manifest has none
	Target     bool // references and the command line may name it
	// Where attributes come from that are not set: "defaults" (those that it has), "the target" (those
	// that are not required), or "" for none.
	Inherits string
}

// Attribute describes an attribute of a block, or a key of a map.
type Attribute struct {
	Name     string
	Type     Type
	Words    []string // the valid values, if they are few
	Min, Max int64    // of a number
	Required bool
	Default  string // value if the attribute is neither set nor inherited
	Text     string
	Example  string // a line of a manifest
	Becomes  string // the part before the first semicolon is for the example, with nvcc and gcc
	See      string // a page of docs
	Keys     []Attribute

	form    *form  // of a string, or of the elements of a list
	path    bool   // it has paths, relative to the folder of its manifest
	exists  bool   // the files of its paths exist, or are generated
	option  string // "-I" if its names stand behind this option of compilers
	missing string // help if a required attribute is missing
}

// Type is the type of an attribute's value.
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

// Attribute returns the attribute with this name, or nil.
func (b *Block) Attribute(name string) *Attribute {
	for i := range b.Attributes {
		if b.Attributes[i].Name == name {
			return &b.Attributes[i]
		}
	}
	return nil
}

// Block returns the nested block with this name, or nil.
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

// targetKinds returns the kinds of blocks that references and the command line may name.
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

// shape returns a placeholder for a value of the attribute.
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
