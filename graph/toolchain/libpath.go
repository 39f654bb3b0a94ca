package toolchain

import (
	"path"
	"slices"
	"strings"
)

// LibraryPath returns an LD_LIBRARY_PATH reduced to its plain absolute folders. The dynamic loader
// (ld.so(8)) reads a semicolon as a colon and an empty entry as the working directory, and it
// expands $ORIGIN, $LIB and $PLATFORM. With those, the libraries of a compiler would depend on its
// working directory: it would load a libc.so.6 that lies in the project.
func LibraryPath(list string) string {
	dirs := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ';' })
	return strings.Join(slices.DeleteFunc(dirs, func(d string) bool { return !path.IsAbs(d) || strings.Contains(d, "$") }), ":")
}
