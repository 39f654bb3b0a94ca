package modinfo

import (
	"fmt"
	"reflect"
)

// Compare compares an artifact in a manifest with the one found in its file and returns a problem
// for every field that differs. field is the artifact's path in the document: "artifacts[2]". It
// skips what a file does not record: LTO symbols, and kernels that found lacks.
func Compare(field string, given, found Artifact) []Problem {
	given.LTOSymbols, found.LTOSymbols = nil, nil
	if found.Kernels == nil {
		given.Kernels = nil
	}
	c := comparison{file: given.File}
	c.value(field, reflect.ValueOf(given), reflect.ValueOf(found))
	return c.problems
}

type comparison struct {
	file     string
	problems []Problem
}

func (c *comparison) problem(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...)})
}

func (c *comparison) value(field string, given, found reflect.Value) {
	switch given.Kind() {
	case reflect.Struct:
		for i := range given.NumField() {
			name, _ := tag(given.Type().Field(i))
			c.value(join(field, name), given.Field(i), found.Field(i))
		}
	case reflect.Slice:
		c.list(field, given, found)
	case reflect.Pointer: // of LTO symbols, which a file does not record
	default:
		if !given.Equal(found) {
			c.problem(field, "is %v, the file %s has %v", shown(given), c.file, shown(found))
		}
	}
}

func (c *comparison) list(field string, given, found reflect.Value) {
	switch {
	case given.IsNil() != found.IsNil() && given.IsNil():
		c.problem(field, "is missing, the file %s has %d", c.file, found.Len())
	case given.IsNil() != found.IsNil():
		c.problem(field, "has %d, which the file %s does not show", given.Len(), c.file)
	case given.Len() != found.Len():
		c.problem(field, "has %d%s, the file %s has %d%s", given.Len(), names(given), c.file, found.Len(), names(found))
	default:
		for i := range given.Len() {
			c.value(fmt.Sprintf("%s[%d]", field, i), given.Index(i), found.Index(i))
		}
	}
}

// names formats the names of kernels.
func names(list reflect.Value) string {
	kernels, ok := list.Interface().([]Kernel)
	if !ok {
		return ""
	}
	s := []string{}
	for _, k := range kernels {
		s = append(s, k.Name)
	}
	return fmt.Sprint(" ", s)
}

func shown(v reflect.Value) any {
	if v.Kind() == reflect.String && v.String() == "" {
		return `""`
	}
	return v
}
