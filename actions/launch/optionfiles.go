package launch

import (
	"errors"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// writeOut replaces the files of options in a command line by their content, as by does, and
// returns their names.
func writeOut(by func(optfile.Files, []string) ([]optfile.Word, error), argv []string, dir string) (out, files []string, err error) {
	f := optfile.Files{Read: func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		files = append(files, name)
		return regular.ReadAtMost(name, 16<<20)
	}}
	words, err := by(f, argv[1:])
	var fault *optfile.Error
	if errors.As(err, &fault) {
		return nil, nil, errors.New(fault.Say)
	}
	if err != nil {
		return nil, nil, err
	}
	out = argv[:1:1]
	for _, w := range words {
		out = append(out, w.Text)
	}
	return out, files, nil
}
