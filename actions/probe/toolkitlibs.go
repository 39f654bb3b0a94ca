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
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// A link searches for the toolkit's libraries. A search that fails in the toolkit continues in the
// system, since the linker's own folders follow those that nvcc names. A toolkit may name another
// library folder than it has: pip's 13.0 names lib64, and has lib. Where Debian's 11.8 is installed
// too, such a toolkit is linked with the runtime of 11.8 without a warning.

// systemLibDirs are folders that a linker searches on its own account.
var systemLibDirs = [...]string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}

func (d dry) root() string { return filepath.Dir(d.here) }

// ofSystem reports whether a distribution has spread the toolkit over /usr.
func (d dry) ofSystem() bool {
	return strings.HasPrefix(d.root(), "/usr/") && !strings.HasPrefix(d.root(), "/usr/local/")
}

// library returns the file that a link with the toolkit uses for a library, or "" if none is found.
func (w *hostEnv) library(d dry, name string) string {
	for _, dir := range slices.Concat(d.libDirs, systemLibDirs[:]) {
		if p := filepath.Join(dir, name); w.there(p) {
			return p
		}
	}
	return ""
}

// ofHostCXX is the prefix of the roles of parts that only the host compiler loads.
const ofHostCXX = "host compiler "

// addLibrariesOf adds the shared libraries of the toolkit's programs to its parts. nvcc.profile may
// prepend a folder of the toolkit to LD_LIBRARY_PATH. All that nvcc starts then loads libraries
// from it before the system's, including the shell and the host compiler with the fingerprint
// hostCXX.
func (w *hostEnv) addLibrariesOf(d dry, hostCXX string) {
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

// findLibraries adds the library folder of a toolkit whose nvcc names another: pip's 13.0 and 13.1
// name lib64, and have lib.
func (d *dry) findLibraries() {
	if len(d.libDirs) == 0 || d.ofSystem() {
		return
	}
	// One of them may be missing.
	for _, name := range []string{"libcudadevrt.a", "libcudart_static.a"} {
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

func (w *hostEnv) libFaults(d dry, version string) map[string]string {
	faults := map[string]string{}
	for _, name := range nvcc.Libraries {
		if fault := w.libFault(d, name, version); fault != "" {
			faults[name] = fault
		}
	}
	return faults
}

// libFault reports why a link would use another toolkit's library. It reports nothing if nvcc names
// no folders or the library is not found; the linker then decides.
func (w *hostEnv) libFault(d dry, name, version string) string {
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

// sharedRuntime returns the -l name of the shared runtime where pip has installed it only as
// libcudart.so.13; else "".
func (w *hostEnv) sharedRuntime(d dry) string {
	if len(d.libDirs) > 0 && !d.ofSystem() {
		last := d.libDirs[len(d.libDirs)-1]
		if found, _ := fs.Glob(os.DirFS(last), "libcudart.so.*"); !w.there(filepath.Join(last, "libcudart.so")) && len(found) > 0 {
			return ":" + found[0]
		}
	}
	return ""
}

// own returns the first file of the toolkit that matches one of some patterns.
func (d dry) own(patterns ...string) string {
	for _, pattern := range patterns {
		if found, _ := fs.Glob(os.DirFS(d.root()), pattern); len(found) > 0 {
			return filepath.Join(d.root(), found[0])
		}
	}
	return ""
}

// nvlinkLoads returns the path from which nvlink -dlto loads libnvvm, or "" if nvcc names no folder
// for it.
func (d dry) nvlinkLoads() string {
	if d.nvvmPath == "" {
		return ""
	}
	return filepath.Join(d.nvvmPath, "lib64", "libnvvm.so")
}

// libNVVM finds libnvvm where it is not in the folder that nvlink searches, as in pip's package and
// in Debian's. nvlink then prints "elfLink linker library load error". The library of another
// toolkit does not help: 11.8's reads no LTO-IR of 13.
func (w *hostEnv) libNVVM(d dry, version string) (file, fault string) {
	want := d.nvlinkLoads()
	if want == "" || w.there(want) {
		return "", ""
	}
	own := d.own("lib*/libnvvm.so*", "nvvm/lib*/libnvvm.so*", "targets/*/lib*/libnvvm.so*")
	if have, _ := filepath.Glob("/usr/lib/*-linux-gnu/libnvvm.so*"); own == "" && len(have) > 0 && d.ofSystem() {
		own = have[0]
	}
	if own != "" {
		dir := toolchain.ShellWord(filepath.Dir(want))
		return own, fmt.Sprintf("nvlink -dlto needs %s, which this package does not install. Run: mkdir -p %s && ln -s %s %s", want, dir, toolchain.ShellWord(own), toolchain.ShellWord(want))
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

// mixed reports parts of another version than nvcc. pip installs the newest version of each package
// that is not pinned. The first error is ptxas's (`Unsupported .version 9.5; current version is
// '9.0'`); PTX and LTO-IR are generated without a warning.
func (w *hostEnv) mixed(d dry, k *cuda.Toolkit) string {
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

// releaseOfLibNVVM returns the release that nvlink's libnvvm writes into PTX. The library contains
// it as a text, and has no function that returns it. Its soname, the results of nvvmVersion and the
// revision of its code are not releases.
func (w *hostEnv) releaseOfLibNVVM() string {
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

// findRelease returns the first release that releaseRE matches in r. It reads r in pieces, since
// the text may be in the middle of 70 MB.
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

// releaseOfCICC has cicc compile an empty source and returns the release in the PTX: cicc has no
// option that prints it. It stores the versions of the generated code in k.
func (w *hostEnv) releaseOfCICC(k *cuda.Toolkit) string {
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
