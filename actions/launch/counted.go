package launch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Counted reports whether a command needs a lease when it is passed through to its compiler. Such a
// command reads and writes only files, and so waits for no other command. A command that reads or
// writes a pipe may hold its lease while it waits for a command that waits for a lease.
func Counted(argv []string) bool {
	if !vendors.IsCompiler(filepath.Base(argv[0])) {
		return false
	}
	makes := false
	for _, arg := range argv[1:] {
		switch {
		case slices.Contains([]string{"-c", "-dc", "-o", "--compile", "--device-c", "--output-file"}, arg):
			makes = true
		case arg == "-", arg == "-E", arg == "--preprocess", strings.Contains(arg, ",-E"), strings.HasPrefix(arg, "-M") && !besideCompile(arg), strings.HasPrefix(arg, "--generate-") && !strings.Contains(arg, "code") && !besideCompile(arg),
			strings.HasPrefix(arg, "@"), strings.Contains(arg, "options-file"), strings.HasPrefix(arg, "-optf"), strings.Contains(arg, "/dev/"), strings.Contains(arg, "/proc/"), strings.HasPrefix(arg, "-run"), arg == "--run":
			return false
		}
		for _, name := range []string{arg, strings.TrimPrefix(arg, "-o")} {
			if info, err := os.Stat(name); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) != 0 {
				return false
			}
		}
	}
	return makes
}

// besideCompile reports whether an option is about dependency files that are written beside an
// object.
func besideCompile(arg string) bool {
	return slices.ContainsFunc([]string{"-MD", "-MMD", "-MF", "-MT", "-MQ", "-MP"}, func(o string) bool { return strings.HasPrefix(arg, o) }) || strings.HasSuffix(arg, "-with-compile")
}
