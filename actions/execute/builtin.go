package execute

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Method stands in the keys of what kbuild makes itself: joined and sliced objects, canonical texts, manifests of modules. Raise it
// when one of them comes out differently.
const Method = "4"

// builtin does the actions that need no process.
func (r *Runner) builtin(a *graph.Action, dir scratch) error {
	switch a.Kind {
	case graph.Copy:
		return copyFile(r.abs(a.Inputs[0]), dir.output(0, a.Outputs[0]))
	case graph.Embed:
		return r.embed(a, dir)
	case graph.Manifest:
		return r.manifest(a, dir.output(0, a.Outputs[0]))
	case graph.References:
		return r.references(a, dir.output(0, a.Outputs[0]))
	case graph.Join:
		return r.join(a, dir.output(0, a.Outputs[0]))
	case graph.Slice:
		return r.slice(a, dir.output(0, a.Outputs[0]))
	case graph.HostRefs:
		return r.writeHostRefs(a, dir.output(0, a.Outputs[0]))
	}
	panic("BUG: no builtin for " + string(a.Kind))
}

// join makes the object that nvcc, hipcc or clang would make: host code with the device code of all architectures.
func (r *Runner) join(a *graph.Action, name string) error {
	host, err := regular.Read(r.abs(a.Inputs[0]))
	if err != nil {
		return err
	}
	code, err := regular.Read(r.abs(a.Inputs[1]))
	if err != nil {
		return err
	}
	var out []byte
	switch {
	case strings.HasSuffix(a.Inputs[1], clang.HIPCode):
		out, err = fatbin.WithBundle(host, clang.Placeholder, code)
	case strings.HasSuffix(a.Inputs[1], clang.CUDACode):
		out, err = fatbin.WithClangFatbin(host, clang.Placeholder, code)
	default:
		out, err = fatbin.WithFatbin(host, code)
	}
	if err != nil {
		return fmt.Errorf("joining the host and device code of %s: %w", a.Name, err)
	}
	return os.WriteFile(name, out, 0o666)
}

// slice cuts what a device link of one architecture reads out of an object or archive; all of it, if it is
// not understood.
func (r *Runner) slice(a *graph.Action, name string) error {
	whole, err := regular.Read(r.abs(a.Inputs[0]))
	if err != nil {
		return err
	}
	code, err := gencode.Parse(a.Archs[0])
	if err != nil {
		panic("BUG: a slice for " + a.Archs[0])
	}
	cut := fatbin.ForLink
	if strings.HasSuffix(a.Inputs[0], ".a") {
		cut = fatbin.ArchiveForLink
	}
	out, err := cut(whole, code)
	if err != nil {
		out = whole
	}
	return os.WriteFile(name, out, 0o666)
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
