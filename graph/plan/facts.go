package plan

import (
	"maps"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Facts holds everything that the planner knows about the host environment. actions/probe collects
// it before planning; tests write it by hand. The planner looks nothing up.
type Facts struct {
	vendors.Installed // compilers of device code

	CXX, CC toolchain.Tool // host compilers for C++ and C sources and for links
	AR      toolchain.Tool
	HostLTO toolchain.HostLTO // what CXX needs to optimise across files

	LinkDepfile bool // the linker supports --dependency-file

	// The linker is GNU ld: with --verbose it prints which files it probed.
	LinkTrace bool
	NativeGPU []gencode.Code // SASS codes of the GPUs of this machine; nil if there are none

	// How compilers identify the processor of this machine; "" if no flag needs it.
	NativeCPU string
	Prebuilt  map[string]toolchain.Library // by path as written in the manifest
	DryRuns   map[string]toolchain.DryRun  // results of Plan.Questions, by Question.Key

	// By name of a -l library: the files that it may resolve to, outside of the toolkit.
	Libs   map[string][]string
	Behind map[string]Behind // by file of a prebuilt or a -l library

	// By name of a -l library: why it may resolve to another file, about which nothing is known.
	Unseen map[string]string

	// By name of a -l library, and by LibIn: its archive, "" if that holds no NVIDIA device code;
	// the contents are in Prebuilt.
	Static map[string]string
}

// LibIn returns the key in Facts.Static of the library that -lNAME finds in a folder of some
// target's lib_dirs.
func LibIn(dir, name string) string { return dir + "/lib" + name }

// static returns the archive with NVIDIA device code that -lNAME finds in a link which searches
// dirs first, or "".
func (f *Facts) static(name string, dirs []string) string {
	for _, d := range dirs {
		if file, ok := f.Static[LibIn(d, name)]; ok {
			return file
		}
	}
	return f.Static[name]
}

// AnyStatic reports whether some -l may find an archive with NVIDIA device code.
func (f *Facts) AnyStatic() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Static)), func(file string) bool { return file != "" })
}

// AnyNeedsToolkit reports whether some shared library needs a library of the toolkit.
func (f *Facts) AnyNeedsToolkit() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Behind)), func(b Behind) bool { return b.Toolkit })
}

// Behind describes the dependencies of a shared library that are outside of the system and the
// toolkit, and how a link finds them.
type Behind struct {
	Files []string

	// Folders of Files that no loader searches: those beside the library that needs them.
	Beside  []string
	Missing string // the name of a dependency that was not found, or ""
	Toolkit bool   // it needs a library of the toolkit and has no run path to it
	Unnamed bool   // it has no DT_SONAME: a link by its path would record that path
}
