package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvcc reads options from the environment, and these may name files of options. kbuild replaces
// such names by the options in the files before it uses the environment. So the options in the
// files are in keys, in dry runs and in nvcc's own environment, as other options are.

// writeOutFiles returns an environment in which files of options are replaced by the options in
// them. Their names are relative to root.
func writeOutFiles(env run.Environment, root string) (run.Environment, error) {
	for _, name := range run.Names(run.PassOptions) {
		if words := strings.Fields(env.Get(name)); slices.ContainsFunc(words, namesOptions) {
			return env, usagef("%s names a file of options: write the options themselves", name)
		}
	}
	for _, name := range run.Names(run.NVCCOptions) {
		words := strings.FieldsFunc(env.Get(name), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
		if !slices.ContainsFunc(words, namesOptions) {
			continue
		}
		written, err := writtenOut(words, root)
		if err != nil {
			return env, usagef("%s: %w", name, err)
		}
		env = append(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
			return strings.HasPrefix(v, name+"=")
		}), name+"="+written)
	}
	return env, nil
}

// namesOptions reports whether an option may name a file of options.
func namesOptions(word string) bool {
	return strings.HasPrefix(word, "@") || strings.Contains(word, "=@") || strings.Contains(word, ",@") ||
		strings.Contains(word, "options-file") || strings.Contains(word, "-optf") || strings.Contains(word, "specs")
}

// writtenOut returns options in which files of options are replaced by their content.
func writtenOut(words []string, root string) (string, error) {
	files := optfile.Files{Read: func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(root, name)
		}
		return regular.ReadAtMost(name, manifest.MaxSource)
	}}
	out, err := files.NVIDIA(words)
	var fault *optfile.Error
	if errors.As(err, &fault) {
		return "", fmt.Errorf("%s. %s", fault.Say, fault.Help)
	}
	var texts []string
	for _, w := range out {
		switch {
		case strings.ContainsAny(w.Text, " \t\n\"'\\[]$`"):
			return "", fmt.Errorf("it expands to the option %q, which nvcc reads differently from the environment: use flags.nvcc", w.Text)
		case namesOptions(w.Text): // a file that does not exist, or gcc's specs
			return "", fmt.Errorf("%s names a file that does not exist, or that kbuild cannot expand: use flags.nvcc", w.Text)
		}
		texts = append(texts, w.Text)
	}
	return strings.Join(texts, " "), nil
}
