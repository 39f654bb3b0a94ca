package compiler

import (
	"path"
	"slices"
	"strings"
)

// LibraryPath is a value of LD_LIBRARY_PATH with its absolute folders alone. The dynamic loader
// (ld.so(8)) takes a semicolon for a colon, an empty entry for the folder that a process runs in,
// and puts another in place of $ORIGIN, $LIB and $PLATFORM: what a compiler would be made of then
// depends on where it is started, and a libc.so.6 that lies in the project would be its own.
func LibraryPath(list string) string {
	dirs := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ';' })
	return strings.Join(slices.DeleteFunc(dirs, func(d string) bool { return !path.IsAbs(d) || strings.Contains(d, "$") }), ":")
}
