package toolchain

import (
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// libraryOptions lists the options of nvlink and lld for folders and libraries. The value follows
// "=", is the next argument, or directly follows a one-dash option.
var libraryOptions = [...]string{"--library-path", "--library", "-L", "-l"}

// mapLibraryOptions returns argv with the values of library options replaced by f.
func mapLibraryOptions(argv []string, f func(option, value string) string) []string {
	out := make([]string, 0, len(argv))
	next := ""
	for _, arg := range argv {
		if next != "" {
			arg, next = f(next, arg), ""
		} else {
			for _, o := range libraryOptions {
				value, joined := strings.CutPrefix(arg, o)
				if !joined || value != "" && value[0] != '=' && len(o) > 2 {
					continue
				}
				if value == "" {
					next = o
				} else if named, ok := strings.CutPrefix(value, "="); ok {
					arg = o + "=" + f(o, named)
				} else {
					arg = o + f(o, value)
				}
				break
			}
		}
		out = append(out, arg)
	}
	return out
}

// MapLibraryFolders returns an nvlink command with its library folders replaced by name.
func MapLibraryFolders(argv []string, name func(dir string) string) []string {
	return mapLibraryOptions(argv, func(option, value string) string {
		if option == "-l" || option == "--library" {
			return value
		}
		dirs := strings.Split(value, ",")
		for i, dir := range dirs {
			dirs[i] = name(dir)
		}
		return strings.Join(dirs, ",")
	})
}

// DeviceLibraries returns, for each library in the command of a device link, its candidate files:
// the linker reads the first that exists. nvlink searches all folders for a shared library, then
// for a static one, and splits values at commas. lld searches each folder for both.
func DeviceLibraries(argv []string, linker graph.Linker) (candidates [][]string) {
	var dirs, names []string
	mapLibraryOptions(argv, func(option, value string) string {
		values := []string{value}
		if linker == graph.LinkerNVLink {
			values = strings.Split(value, ",")
		}
		if option == "-l" || option == "--library" {
			names = append(names, values...)
		} else {
			dirs = append(dirs, values...)
		}
		return value
	})
	for _, name := range names {
		var files []string
		shared, static := "lib"+name+".so", "lib"+name+".a"
		switch exact, ok := strings.CutPrefix(name, ":"); {
		case linker == graph.LinkerLLD && ok:
			files = inFolders(dirs, exact)
		case linker == graph.LinkerLLD:
			files = inFolders(dirs, shared, static)
		default:
			files = append(inFolders(dirs, shared), inFolders(dirs, static)...)
		}
		candidates = append(candidates, files)
	}
	return candidates
}

func inFolders(dirs []string, names ...string) (files []string) {
	for _, dir := range dirs {
		for _, name := range names {
			// Not Join, which would shorten "link/..".
			files = append(files, strings.TrimSuffix(dir, "/")+"/"+name)
		}
	}
	return files
}
