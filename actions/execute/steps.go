package execute

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// step does the work of a kind of action in this process, in place of a command.
type step interface {
	// keyFields writes to a key what changes the outputs and is neither an argument nor an input.
	keyFields(w cache.KeyWriter, a *graph.Action)

	// run writes the outputs.
	run(w work) error
}

// steps holds the steps of all kinds that run in this process.
var steps = map[graph.Kind]step{
	graph.Copy: copyStep{}, graph.Embed: embedStep{}, graph.Manifest: manifestStep{},
	graph.References: referencesStep{}, graph.Extract: extractStep{}, graph.Join: joinStep{},
	graph.Slice: sliceStep{}, graph.HostRefs: hostRefsStep{},
}

// inProcess is embedded in the steps, whose outputs depend on the version of their method.
type inProcess struct{}

func (inProcess) keyFields(w cache.KeyWriter, a *graph.Action) { w.Field("method", Method) }

// work is an action that runs in this process, with its folders.
type work struct {
	*graph.Action
	root       string
	dir        scratch
	provenance *provenance
}

func (w work) abs(file string) string { return cache.Absolute(w.root, file) }

func (w work) read(file string) ([]byte, error) { return regular.Read(w.abs(file)) }

// output returns the temporary name of output i.
func (w work) output(i int) string { return w.dir.output(i, w.Outputs[i]) }

func (w work) write(i int, content []byte) error { return os.WriteFile(w.output(i), content, 0o666) }

type copyStep struct{ inProcess }

func (copyStep) run(w work) error { return copyFile(w.abs(w.Inputs[0]), w.output(0)) }

// extractStep writes the files of a pack.
type extractStep struct{ inProcess }

func (extractStep) run(w work) error {
	pack, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	files, err := graph.UnpackFiles(pack)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Inputs[0], err)
	}
	expected := func(f graph.PackedFile, name string) bool {
		return path.Join(w.Argv[0], f.Name) == name
	}
	if !slices.EqualFunc(files, w.Outputs, expected) {
		return fmt.Errorf("the command of %s (%s) wrote other files than when this build was "+
			"planned: build again", w.Target, w.Pos)
	}
	for i, f := range files {
		if err := w.write(i, f.Content); err != nil {
			return err
		}
		if f.Exec {
			if err := os.Chmod(w.output(i), 0o777); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinStep builds the object that nvcc, hipcc or clang would build: host code with the device code
// of all architectures.
type joinStep struct{ inProcess }

func (joinStep) run(w work) error {
	host, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	code, err := w.read(w.Inputs[1])
	if err != nil {
		return err
	}
	var out []byte
	switch {
	case strings.HasSuffix(w.Inputs[1], clang.HIPCode):
		out, err = fatbin.WithBundle(host, clang.Placeholder, code)
	case strings.HasSuffix(w.Inputs[1], clang.CUDACode):
		out, err = fatbin.WithClangFatbin(host, clang.Placeholder, code)
	case strings.HasSuffix(w.Inputs[1], clang.OffloadCode):
		out, err = fatbin.WithOffloading(host, clang.Placeholder, code)
	default:
		out, err = fatbin.WithFatbin(host, code)
	}
	if err != nil {
		return fmt.Errorf("joining the host and device code of %s: %w", w.Name, err)
	}
	return w.write(0, out)
}

// sliceStep cuts out of an object or archive what a device link of one architecture reads. It
// copies a file that it cannot parse.
type sliceStep struct{ inProcess }

func (s sliceStep) keyFields(w cache.KeyWriter, a *graph.Action) {
	w.Field("arch", a.Archs[0]) // other kinds have it in their arguments
	s.inProcess.keyFields(w, a)
}

func (sliceStep) run(w work) error {
	whole, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	code, err := gencode.Parse(w.Archs[0])
	if err != nil {
		panic("BUG: a slice for " + w.Archs[0])
	}
	cut := fatbin.ForLink
	if strings.HasSuffix(w.Inputs[0], ".a") {
		cut = fatbin.ArchiveForLink
	}
	out, err := cut(whole, code)
	if err != nil {
		out = whole
	}
	return w.write(0, out)
}

// referencesStep writes PTX that refers to the functions that a piece of LTO-IR defines, and has
// bodies for those in its arguments.
type referencesStep struct{ inProcess }

func (referencesStep) run(w work) error {
	text, err := w.read(w.Inputs[0])
	if err != nil {
		return err
	}
	out, err := modules.References(text, w.Argv[min(1, len(w.Argv)):])
	if err != nil {
		return fmt.Errorf("%s: %w", w.Inputs[0], err)
	}
	return w.write(0, out)
}

func copyFile(from, to string) error {
	in, err := regular.Open(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := regular.Open(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666|info.Mode()&0o111)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
