package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvcc reads options from the environment, and these may name files of options. kbuild replaces
// such names by the options in the files before it uses the environment. So the options in the
// files are in keys, in dry runs and in nvcc's own environment, as other options are.

// OptionEnv lists the variables with options of nvcc. OtherOptionEnv lists those with options of
// the programs that nvcc runs.
var (
	OptionEnv      = []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}
	OtherOptionEnv = []string{"INCLUDES", "LIBRARIES", "CUDAFE_FLAGS", "PTXAS_FLAGS", "NVVM_FLAGS", "OCG_FLAGS", "NVLINK_FLAGS"}
)

// writeOutEnv replaces files of options that the environment names by the options in them.
func (w *Workspace) writeOutEnv() error {
	if err := probe.AbsoluteLibraries(); err != nil {
		return err
	}
	for _, name := range OtherOptionEnv {
		if words := strings.Fields(os.Getenv(name)); slices.ContainsFunc(words, namesOptions) {
			return usagef("%s names a file of options: write the options themselves", name)
		}
	}
	for _, name := range OptionEnv {
		words := strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
		if !slices.ContainsFunc(words, namesOptions) {
			continue
		}
		written, err := w.writtenOut(words)
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		if err := os.Setenv(name, written); err != nil {
			return err
		}
	}
	return nil
}

// namesOptions reports whether an option may name a file of options.
func namesOptions(word string) bool {
	return strings.HasPrefix(word, "@") || strings.Contains(word, "=@") || strings.Contains(word, ",@") ||
		strings.Contains(word, "options-file") || strings.Contains(word, "-optf") || strings.Contains(word, "specs")
}

// writtenOut returns options of the environment in which files of options are replaced by their
// content. Names are relative to the root of the project.
func (w *Workspace) writtenOut(words []string) (string, error) {
	root, _ := manifest.Locate(w.Manifest)
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
