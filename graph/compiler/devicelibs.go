package compiler

import "strings"

// libraryOptions name folders and libraries to nvlink and lld: with the value behind "=", in the
// next argument, or with one dash right behind.
var libraryOptions = [...]string{"--library-path", "--library", "-L", "-l"}

// mapLibraryOptions gives argv with the values of such options as f has them.
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

// MapLibraryFolders gives the command of an nvlink with other names for the folders in which it
// looks for libraries.
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

// DeviceLibraries are, for each library in the command of a device link, the files that it may be:
// the first that exists is taken. nvlink looks for a shared library in all folders, then for a
// static one, and splits values at commas; lld looks for both in each folder.
func DeviceLibraries(argv []string, lld bool) (candidates [][]string) {
	var dirs, names []string
	mapLibraryOptions(argv, func(option, value string) string {
		values := []string{value}
		if !lld {
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
		case lld && ok:
			files = inFolders(dirs, exact)
		case lld:
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
			files = append(files, strings.TrimSuffix(dir, "/")+"/"+name) // not Join, which would shorten "link/.."
		}
	}
	return files
}
