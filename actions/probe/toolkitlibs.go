package probe

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// What a link takes from a toolkit is found by search, and a search that fails in the toolkit goes
// on in the system: the linker's own folders come after those that nvcc names. Where Debian's 11.8
// is installed too, a toolkit whose folder of libraries has another name than its nvcc thinks
// (pip's 13.0 says lib64, and has lib) is linked with the runtime of 11.8, without a word of it.

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

// ofHostCXX begins the roles of parts that only the host compiler loads.
const ofHostCXX = "host compiler "

// addLibrariesOf adds the shared libraries of the toolkit's programs to its parts. nvcc.profile may
// put a folder of the toolkit in front of LD_LIBRARY_PATH: a library in it is taken before the
// system's by all that nvcc starts, the shell and the host compiler with the identity hostCXX too.
func (w *world) addLibrariesOf(d dry, hostCXX string) {
	w.addLibraries(w.parts, []string{"nvcc", "nvcc itself"})
	w.libPath = d.libPath
	defer func() { w.libPath = nil }()
	w.addLibraries(w.parts, append([]string{"libnvvm", nvcc.TileIRAS}, nvcc.Programs...))
	if len(d.libPath) == 0 {
		return
	}
	for _, part := range append(slices.Clone(w.covers[hostCXX]), w.parts["sh"]) {
		for name, file := range w.sharedLibs(part) {
			if slices.ContainsFunc(d.libPath, func(dir string) bool { return strings.HasPrefix(file, filepath.Clean(dir)+"/") }) {
				w.parts[ofHostCXX+name] = file
			}
		}
	}
}

// findLibraries adds the folder of libraries of a toolkit whose nvcc names another: pip's 13.0 and
// 13.1 say lib64, and have lib.
func (d *dry) findLibraries() {
	if len(d.libDirs) == 0 || d.ofSystem() {
		return
	}
	for _, name := range []string{"libcudadevrt.a", "libcudart_static.a"} { // one of which may be missing
		if slices.ContainsFunc(d.libDirs, func(dir string) bool { return exists(filepath.Join(dir, name)) }) {
			continue
		}
		if own := d.own("lib*/"+name, "targets/*/lib*/"+name); own != "" {
			d.libDir = filepath.Dir(own)
			d.libDirs = append(d.libDirs, d.libDir)
			return
		}
	}
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

// libFault says why a link would take another toolkit's library. Where it cannot be known, for nvcc
// names no folders or the library is nowhere, the linker has the word.
func (w *world) libFault(d dry, name, version string) string {
	if len(d.libDirs) == 0 || d.ofSystem() {
		return ""
	}
	found := w.library(d, name)
	if found == "" || slices.Contains(d.libDirs, filepath.Dir(found)) || name == "libcudart.so" && w.sharedRuntime(d) != "" {
		return ""
	}
	return fmt.Sprintf("The toolkit has no %s in %s, and a link would take %s, which is of another version. Install the runtime of CUDA %s there (pip: nvidia-cuda-runtime).",
		name, d.libDirs[len(d.libDirs)-1], found, version)
}

// sharedRuntime is what -l names the shared runtime by where pip has installed it, as
// libcudart.so.13 alone; else "".
func (w *world) sharedRuntime(d dry) string {
	if len(d.libDirs) > 0 && !d.ofSystem() {
		last := d.libDirs[len(d.libDirs)-1]
		if found, _ := fs.Glob(os.DirFS(last), "libcudart.so.*"); !w.there(filepath.Join(last, "libcudart.so")) && len(found) > 0 {
			return ":" + found[0]
		}
	}
	return ""
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

// nvlinkLoads is the library that nvlink -dlto loads, "" if nvcc names no folder for it.
func (d dry) nvlinkLoads() string {
	if d.nvvmPath == "" {
		return ""
	}
	return filepath.Join(d.nvvmPath, "lib64", "libnvvm.so")
}

// libNVVM finds the library where neither pip's package nor Debian's puts it for nvlink, which says
// "elfLink linker library load error". One of another toolkit is no help: 11.8's reads no LTO-IR of
// 13.
func (w *world) libNVVM(d dry, version string) (file, fault string) {
	want := d.nvlinkLoads()
	if want == "" || w.there(want) {
		return "", ""
	}
	own := d.own("lib*/libnvvm.so*", "nvvm/lib*/libnvvm.so*", "targets/*/lib*/libnvvm.so*")
	if have, _ := filepath.Glob("/usr/lib/*-linux-gnu/libnvvm.so*"); own == "" && len(have) > 0 && d.ofSystem() {
		own = have[0]
	}
	if own != "" {
		dir := compiler.ShellWord(filepath.Dir(want))
		return own, fmt.Sprintf("nvlink -dlto needs %s, which this package does not install. Run: mkdir -p %s && ln -s %s %s", want, dir, compiler.ShellWord(own), compiler.ShellWord(want))
	}
	return "", fmt.Sprintf("nvlink -dlto needs %s, which is missing; install libnvvm of CUDA %s (pip: nvidia-nvvm).", want, version)
}

const releaseText = "Cuda compilation tools, release "

var (
	releaseRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(releaseText + `(\d+\.\d+)`) })
	runtimeRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^#define CUDART_VERSION\s+(\d+)(\d\d)\d$`)
	})
)

// mixed finds parts of another version than nvcc: pip takes the newest of each package that is not
// pinned, and nothing complains until ptxas does (`Unsupported .version 9.5; current version is
// '9.0'`); PTX and LTO-IR are made without a word.
func (w *world) mixed(d dry, k *plan.Toolkit) string {
	var other []string
	if v := w.releaseOfCICC(k); v != "" && v != k.Version {
		other = append(other, "cicc is of "+v)
	}
	if v := w.releaseOfLibNVVM(); v != "" && v != k.Version {
		other = append(other, "libnvvm is of "+v)
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

// releaseOfLibNVVM is what nvlink's libnvvm writes into PTX as its release, which stands in it as a
// text: it cannot be asked. Its soname, the answers of nvvmVersion and the revision of its code are
// no releases.
func (w *world) releaseOfLibNVVM() string {
	file := w.parts["libnvvm"]
	if file == "" {
		return ""
	}
	w.reads(file)
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if w.note(err); err != nil {
		return ""
	}
	defer f.Close()
	release, err := findRelease(f)
	w.note(err)
	return release
}

// findRelease looks for the first text of releaseRE, which may be in the middle of 70 MB, piece by
// piece.
func findRelease(r io.Reader) (string, error) {
	const piece, longest = 1 << 20, 64
	buf := make([]byte, 0, longest+piece)
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+piece])
		buf = buf[:len(buf)+n]
		end := err != nil // else the text may go on in the next piece
		if i := bytes.Index(buf, []byte(releaseText)); i >= 0 && (end || i+longest <= len(buf)) {
			if m := releaseRE().FindSubmatch(buf[i:]); m != nil {
				return string(m[1]), nil
			}
		}
		if end {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = nil
			}
			return "", err
		}
		buf = buf[:copy(buf, buf[max(0, len(buf)-longest):])]
	}
}

// releaseOfCICC has cicc compile an empty text, for what it says of itself in the PTX: it has no
// option for that. The versions of what it makes are noted in k.
func (w *world) releaseOfCICC(k *plan.Toolkit) string {
	dir := w.folderWith("a.ii", "")
	defer os.RemoveAll(dir)
	if dir == "" || k.Programs["cicc"] == "" || len(k.Archs) == 0 {
		return ""
	}
	text, ptx, ltoir := filepath.Join(dir, "a.ii"), filepath.Join(dir, "a.ptx"), filepath.Join(dir, "a.ltoir")
	if _, err := w.answer(k.Programs["cicc"], "-arch", k.Archs[0].Virtual(), "-m64", text, "-olto", ltoir, "-o", ptx); err != nil {
		return ""
	}
	k.Makes = w.versions(k, ptx, ltoir)
	made, _ := regular.Read(ptx)
	if m := releaseRE().FindSubmatch(made); m != nil {
		return string(m[1])
	}
	return ""
}
