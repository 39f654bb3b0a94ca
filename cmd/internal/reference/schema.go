package reference

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// JSONSchema writes a schema of manifests in the JSON syntax of HCL. Blocks are objects by name and
// label. An expression is a string with "${...}". Repeated blocks are lists, and hcl2json writes
// each body as a list.
func JSONSchema(w io.Writer) error {
	definitions := schema{"expression": schema{"type": "string", "pattern": `\$\{`}}
	s := object(manifest.Schema(), definitions)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "kernels.hcl"
	s["$defs"] = definitions
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

type schema = map[string]any

// object returns the schema of a block's body. It adds nested blocks to the definitions.
func object(b *manifest.Block, definitions schema) schema {
	properties := schema{}
	var required []string
	for i := range b.Attributes {
		a := &b.Attributes[i]
		p := schema{"description": plain(a.Text)}
		if a.Type != manifest.AnyType {
			p["anyOf"] = []any{value(a), schema{"$ref": "#/$defs/expression"}}
		}
		properties[a.Name] = p
		if a.Required {
			required = append(required, a.Name)
		}
	}
	for _, n := range b.Blocks {
		definitions[n.Name] = object(n, definitions)
		one := schema{"$ref": "#/$defs/" + n.Name}
		body := schema{"anyOf": []any{one, schema{"type": "array", "items": one}}}
		if n.Label != "" {
			body = schema{"type": "object", "additionalProperties": body}
		}
		body["description"] = plain(n.Text)
		properties[n.Name] = body
	}
	out := schema{"type": "object", "properties": properties, "additionalProperties": b.Open != ""}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func value(a *manifest.Attribute) schema {
	scalar := schema{"type": []string{"string", "number", "boolean"}}
	switch a.Type {
	case manifest.BoolType:
		return schema{"type": "boolean"}
	case manifest.NumberType:
		return schema{"type": "integer", "minimum": a.Min, "maximum": a.Max}
	case manifest.SizeType, manifest.DurationType:
		return schema{"type": []string{"string", "number"}}
	case manifest.StandardType:
		return schema{"anyOf": []any{text(a), schema{"type": "array", "items": text(a)}}}
	case manifest.StringsType, manifest.ReferencesType:
		return schema{"type": "array", "items": text(a)}
	case manifest.StringMapType:
		return schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "number", "boolean", "null"}}}
	case manifest.ListsType:
		return schema{"type": "object", "additionalProperties": schema{"type": "array", "items": scalar}}
	case manifest.MapsType:
		return schema{"type": "array", "items": schema{"type": "object", "additionalProperties": scalar}}
	case manifest.KeysType:
		return object(&manifest.Block{Attributes: a.Keys}, nil)
	default:
		return text(a)
	}
}

// text returns the schema of a string or one of the attribute's words. A manifest may write a
// number without quotes.
func text(a *manifest.Attribute) schema {
	if len(a.Words) == 0 {
		return schema{"type": []string{"string", "number"}}
	}
	var words []any
	for _, word := range a.Words {
		words = append(words, word)
		if n, err := strconv.Atoi(word); err == nil {
			words = append(words, n)
		}
	}
	return schema{"enum": words}
}

func plain(s string) string { return strings.ReplaceAll(s, "`", "") }
