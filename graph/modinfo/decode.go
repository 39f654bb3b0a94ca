package modinfo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Problem is an error in one field.
type Problem struct {
	Field   string `json:"field"`   // "artifacts[2].sha256"; "" for the document as a whole
	Message string `json:"message"` // the predicate of a sentence about the field: "is missing"
}

func (p Problem) String() string { return strings.TrimPrefix(p.Field+" "+p.Message, " ") }

// Decode parses a document and returns all problems of its form: missing and unknown fields, wrong
// types, impossible values. It stops at another schema. The manifest is nil unless all fields are
// known, present and of the right type.
func Decode(text []byte) (*Manifest, []Problem) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return nil, []Problem{{"", "is no JSON: " + err.Error()}}
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, []Problem{{"", "is more than one JSON value"}}
	}
	if problem := checkSchema(raw); problem != nil {
		return nil, []Problem{*problem}
	}
	m := &Manifest{}
	var d decoder
	d.value("", raw, reflect.ValueOf(m).Elem())
	if d.problems != nil {
		return nil, d.problems
	}
	d.sense(m)
	return m, d.problems
}

func checkSchema(raw any) *Problem {
	fields, ok := raw.(map[string]any)
	if !ok {
		return &Problem{"", "is no JSON object"}
	}
	given, ok := fields["schema"]
	if !ok {
		return &Problem{"schema", "is missing"}
	}
	n, ok := given.(json.Number)
	if !ok {
		return &Problem{"schema", "is " + describe(given) + ", not a number"}
	}
	switch v, err := n.Int64(); {
	case err == nil && v > Schema:
		return &Problem{"schema", fmt.Sprintf("is %d, and this kbuild knows %d: use a newer kbuild", v, Schema)}
	case err != nil || v != Schema:
		return &Problem{"schema", fmt.Sprintf("is %s, which never was one; this kbuild knows %d", n, Schema)}
	}
	return nil
}

// decoder sets values from encoding/json's generic form. It is stricter than encoding/json, which
// treats an absent field as zero, and it reports every problem where encoding/json stops at the
// first.
type decoder struct{ problems []Problem }

func (d *decoder) problem(field, format string, args ...any) {
	d.problems = append(d.problems, Problem{field, fmt.Sprintf(format, args...)})
}

func (d *decoder) value(field string, raw any, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(field, raw, v.Elem())
	case reflect.Struct:
		if fields, ok := as[map[string]any](d, field, raw, "an object"); ok {
			d.structure(field, fields, v)
		}
	case reflect.Slice:
		if list, ok := as[[]any](d, field, raw, "a list"); ok {
			v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
			for i, e := range list {
				d.value(fmt.Sprintf("%s[%d]", field, i), e, v.Index(i))
			}
		}
	case reflect.Map:
		if fields, ok := as[map[string]any](d, field, raw, "an object"); ok {
			v.Set(reflect.MakeMap(v.Type()))
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if s, ok := as[string](d, join(field, name), fields[name], "a string"); ok {
					v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(s))
				}
			}
		}
	case reflect.String:
		if s, ok := as[string](d, field, raw, "a string"); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		if b, ok := as[bool](d, field, raw, "true or false"); ok {
			v.SetBool(b)
		}
	case reflect.Int, reflect.Int64:
		if n, ok := as[json.Number](d, field, raw, "a number"); ok {
			i, err := n.Int64()
			if err != nil || i < 0 || i > math.MaxInt {
				d.problem(field, "is %s, not a count", n)
				return
			}
			v.SetInt(i)
		}
	default:
		panic("BUG: a manifest has a field of type " + v.Type().String())
	}
}

// structure decodes the fields of v in order, then reports those that v does not have.
func (d *decoder) structure(field string, fields map[string]any, v reflect.Value) {
	known := map[string]bool{}
	for i := range v.NumField() {
		name, optional := tag(v.Type().Field(i))
		known[name] = true
		raw, ok := fields[name]
		if !ok {
			if !optional {
				d.problem(join(field, name), "is missing")
			}
			continue
		}
		d.value(join(field, name), raw, v.Field(i))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !known[name] {
			d.problem(join(field, name), "is a field that schema %d does not have", Schema)
		}
	}
}

func tag(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, options == "omitzero"
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func as[T any](d *decoder, field string, raw any, want string) (T, bool) {
	v, ok := raw.(T)
	if !ok {
		d.problem(field, "is %s, not %s", describe(raw), want)
	}
	return v, ok
}

func describe(raw any) string {
	switch raw := raw.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", raw)
	case json.Number:
		return "the number " + raw.String()
	case bool:
		return fmt.Sprint(raw)
	case []any:
		return "a list"
	}
	return "an object"
}

// kinds maps the kinds of artifacts to the prefix of their architectures, "" if the images have
// them.
var kinds = map[string]string{"cubin": "sm_", "ptx": "compute_", "ltoir": "lto_", "hsaco": "gfx", "bitcode": "gfx", "fatbin": ""}

// modes lists the modes of a module and its partitions.
var modes = []string{"whole", "rdc", "lto"}

// sense checks the values and their consistency.
func (d *decoder) sense(m *Manifest) {
	d.named("module", m.Module)
	d.named("compiler.name", m.Compiler.Name)
	d.named("host_compiler.name", m.HostCompiler.Name)
	d.mode("mode", m.Mode)
	for i, p := range m.Partitions {
		field := fmt.Sprintf("partitions[%d]", i)
		d.named(field+".name", p.Name)
		d.mode(field+".mode", p.Mode)
	}
	for _, f := range []struct{ field, value string }{{"input_digest", m.InputDigest}, {"compiler.digest", m.Compiler.Digest}} {
		d.digest(f.field, f.value)
	}
	seen := map[string]int{}
	for i, a := range m.Artifacts {
		field := fmt.Sprintf("artifacts[%d]", i)
		d.digest(field+".sha256", a.SHA256)
		d.arch(field, a.Kind, a.Arch)
		switch first, twice := seen[a.File]; {
		case a.File == "" || path.IsAbs(a.File) || path.Clean(a.File) != a.File || strings.HasPrefix(a.File, "../") || a.File == "..":
			d.problem(field+".file", "is %q, not a path below the manifest's folder", a.File)
		case twice:
			d.problem(field+".file", "is %q, as artifacts[%d].file is", a.File, first)
		}
		seen[a.File] = i
		for k, img := range a.Images {
			d.arch(fmt.Sprintf("%s.images[%d]", field, k), img.Kind, img.Arch)
		}
	}
	d.same("formats", m.Formats, formats(m.Artifacts))
	d.same("architectures", m.Architectures, architectures(m.Artifacts))
}

func (d *decoder) named(field, name string) {
	if name == "" {
		d.problem(field, "is empty")
	}
}

func (d *decoder) mode(field, mode string) {
	if !slices.Contains(modes, mode) {
		d.problem(field, "is %q, not one of %s", mode, strings.Join(modes, ", "))
	}
}

func (d *decoder) digest(field, value string) {
	if len(value) != 64 || strings.Trim(value, "0123456789abcdef") != "" {
		d.problem(field, "is %q, not a SHA-256 of 64 hex digits", value)
	}
}

// arch checks that the kind is known, and that the architecture is one of that kind.
func (d *decoder) arch(field, kind, arch string) {
	prefix, known := kinds[kind]
	if !known {
		d.problem(field+".kind", "is %q, not one of %s", kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		return
	}
	_, err := gencode.Parse(arch)
	if prefix == "" && arch != "" || prefix != "" && (err != nil || !strings.HasPrefix(arch, prefix)) {
		d.problem(field+".arch", "is %q, which no %s has", arch, kind)
	}
}

// same checks that a summary equals the one computed from the artifacts.
func (d *decoder) same(field string, given, want []string) {
	if !slices.Equal(given, want) {
		d.problem(field, "is [%s], and the artifacts have [%s]", strings.Join(given, " "), strings.Join(want, " "))
	}
}
