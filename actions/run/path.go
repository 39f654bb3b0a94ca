package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DropRelativePath removes relative and empty entries from this process's PATH, for itself and for
// all that it starts. They would name programs in a process's working directory, which is not the
// folder that the user sees.
func DropRelativePath() {
	path := os.Getenv("PATH")
	dirs := filepath.SplitList(path)
	absolute := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !filepath.IsAbs(d) })
	switch {
	case len(absolute) == len(dirs):
	case len(absolute) == 0:
		os.Unsetenv("PATH") // an empty PATH means the current folder
	default:
		os.Setenv("PATH", strings.Join(absolute, string(os.PathListSeparator)))
	}
}

// LookPath finds a program. A name with a slash is relative to dir. Other names are searched in the
// absolute folders of env's PATH.
func LookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if err := executable(p); err != nil {
			return "", fmt.Errorf("%s cannot be run: %w", name, err)
		}
		return p, nil
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if p := filepath.Join(d, name); filepath.IsAbs(d) && executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s was not found in PATH (%s)", name, path)
}

func executable(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is no executable file", p)
	}
	return nil
}
