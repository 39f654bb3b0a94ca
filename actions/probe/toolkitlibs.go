package probe

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// What a link takes from a toolkit is found by search, and a search that fails in the toolkit goes on in the system: the linker's
// own folders come after those that nvcc names. Where Debian's 11.8 is installed too, a toolkit whose folder of libraries has another
// name than its nvcc thinks (pip's 13.0 says lib64, and has lib) is linked with the runtime of 11.8, without a word of it.

// systemLibDirs are folders that a linker searches on its own account.
var systemLibDirs = [...]string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}

// root is the folder of the toolkit.
func (d dry) root() string { return filepath.Dir(d.here) }

// ofSystem reports a toolkit that a distribution has spread over /usr.
func (d dry) ofSystem() bool {
	return strings.HasPrefix(d.root(), "/usr/") && !strings.HasPrefix(d.root(), "/usr/local/")
}

// library is what a link with the toolkit takes for a library; "" if there is none.
func (w *world) library(d dry, name string) string {
	for _, dir := range slices.Concat(d.libDirs, systemLibDirs[:]) {
		if p := filepath.Join(dir, name); w.there(p) {
			return p
		}
	}
	return ""
}

func (w *world) libFaults(d dry, version string) map[string]string {
	faults := map[string]string{}
	for _, name := range nvcc.Libraries {
		if fault := w.libFault(d, name, version); fault != "" {
			faults[name] = fault
		}
	}
	return faults
}

// libFault says why a link would take another toolkit's library. Where it cannot be known, for nvcc names no folders or the library
// is nowhere, the linker has the word.
func (w *world) libFault(d dry, name, version string) string {
	if len(d.libDirs) == 0 || d.ofSystem() {
		return ""
	}
	found := w.library(d, name)
	if found != "" && slices.Contains(d.libDirs, filepath.Dir(found)) {
		return ""
	}
	named := d.libDirs[len(d.libDirs)-1] // before it come stubs
	instead := ""
	if found != "" {
		instead = fmt.Sprintf(", and a link would take %s, which is of another version", found)
	}
	if own := d.own("lib*/"+name, "targets/*/lib*/"+name, "lib*/"+name+".*", "targets/*/lib*/"+name+".*"); own != "" {
		return fmt.Sprintf("nvcc names %s for libraries, where there is no %s%s. Run: %s", named, name, instead, linkInto(named, name, own))
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf("The toolkit has no %s in %s%s. Install the runtime of CUDA %s there (pip: nvidia-cuda-runtime).", name, named, instead, version)
}

// own is the first file of the toolkit that matches one of some patterns.
func (d dry) own(patterns ...string) string {
	for _, pattern := range patterns {
		if found, _ := fs.Glob(os.DirFS(d.root()), pattern); len(found) > 0 {
			return filepath.Join(d.root(), found[0])
		}
	}
	return ""
}

// linkInto are the commands that make file, which exists, found as name in dir.
func linkInto(dir, name, file string) string {
	relative := func(from, to string) string {
		if rel, err := filepath.Rel(from, to); err == nil {
			return rel
		}
		return to
	}
	if exists(dir) {
		return fmt.Sprintf("ln -s %s %s", shellWord(relative(dir, file)), shellWord(filepath.Join(dir, name)))
	}
	commands := fmt.Sprintf("ln -s %s %s", shellWord(relative(filepath.Dir(dir), filepath.Dir(file))), shellWord(dir))
	if filepath.Base(file) != name {
		commands += fmt.Sprintf(" && ln -s %s %s", shellWord(filepath.Base(file)), shellWord(filepath.Join(dir, name)))
	}
	return commands
}

// shellWord quotes a path for a shell where that is needed.
func shellWord(path string) string {
	if strings.ContainsAny(path, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// libnvvm is the library that nvlink -dlto loads, "" if nvcc names no folder for it.
func (d dry) libnvvm() string {
	if d.nvvmPath == "" {
		return ""
	}
	return filepath.Join(d.nvvmPath, "lib64", "libnvvm.so")
}

// ltoFault knows two packaging faults: nvlink looks for libnvvm where neither Debian's package nor pip's puts it, and says
// "elfLink linker library load error". A libnvvm of another version is no help: 11.8's reads no LTO-IR of 13.
func (w *world) ltoFault(d dry, version string) string {
	want := d.libnvvm()
	if want == "" || w.there(want) {
		return ""
	}
	dir := filepath.Dir(want)
	if own := d.own("lib*/libnvvm.so*", "nvvm/lib*/libnvvm.so*", "targets/*/lib*/libnvvm.so*"); own != "" {
		if rel, err := filepath.Rel(dir, own); err == nil {
			own = rel
		}
		return fmt.Sprintf("nvlink -dlto needs %s, which this package does not install. Run: mkdir -p %s && ln -s %s %s", want, shellWord(dir), shellWord(own), shellWord(want))
	}
	if have, _ := filepath.Glob("/usr/lib/*-linux-gnu/libnvvm.so*"); len(have) > 0 && d.ofSystem() {
		return fmt.Sprintf("nvlink -dlto needs %s, which this package does not install. As root: mkdir -p %s && ln -s %s %s", want, dir, have[0], want)
	}
	return fmt.Sprintf("nvlink -dlto needs %s, which is missing; install libnvvm of CUDA %s (pip: nvidia-nvvm).", want, version)
}

var (
	releaseRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Cuda compilation tools, release (\d+\.\d+)`) })
	runtimeRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^#define CUDART_VERSION\s+(\d+)(\d\d)\d$`)
	})
)

// mixed finds parts of another version than nvcc: pip takes the newest of each package that is not pinned, and nothing complains until
// ptxas does (`Unsupported .version 9.5; current version is '9.0'`); PTX and LTO-IR are made without a word.
func (w *world) mixed(d dry, k *plan.Toolkit) string {
	var other []string
	if v := w.releaseOfCICC(k); v != "" && v != k.Version {
		other = append(other, "cicc is of "+v)
	}
	if file := d.header("cuda_runtime_api.h"); file != "" {
		w.reads(file)
		text, err := regular.Read(file)
		w.note(err)
		if m := runtimeRE().FindSubmatch(text); m != nil {
			if v := fmt.Sprintf("%s.%s", m[1], strings.TrimPrefix(string(m[2]), "0")); v != k.Version {
				other = append(other, "the headers of the runtime are of "+v)
			}
		}
	}
	if len(other) == 0 {
		return ""
	}
	return fmt.Sprintf("nvcc is of CUDA %s, %s. Install all of one version (pip: 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==%s.*').", k.Version, strings.Join(other, ", "), k.Version)
}

// releaseOfCICC has cicc compile an empty text, for what it says of itself in the PTX: it has no option for that.
func (w *world) releaseOfCICC(k *plan.Toolkit) string {
	dir := w.folderWith("a.ii", "")
	defer os.RemoveAll(dir)
	if dir == "" || k.Programs["cicc"] == "" || len(k.Archs) == 0 {
		return ""
	}
	text, ptx := filepath.Join(dir, "a.ii"), filepath.Join(dir, "a.ptx")
	if _, err := w.answer(k.Programs["cicc"], "-arch", k.Archs[0].Virtual(), "-m64", text, "-o", ptx); err != nil {
		return ""
	}
	made, _ := regular.Read(ptx)
	if m := releaseRE().FindSubmatch(made); m != nil {
		return string(m[1])
	}
	return ""
}
