package probe

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// installs tells the user how kbuild itself installs a toolkit.
const installs = `Or have kbuild install one, without root: give toolchain "cuda" of kernels.hcl version = "13.5.0" and ` +
	`from = "pypi", and run kbuild toolkit lock and kbuild toolkit install.`

// toolkit finds and identifies the CUDA toolkit. A dry run of nvcc names its parts; nothing is
// guessed from a layout.
func (w *hostEnv) toolkit() (*cuda.Toolkit, string) {
	driver, looked := w.findNVCC()
	if driver == "" && w.req.Missing != "" {
		w.misses = toolchain.Missed{Attribute: w.req.MissingOf, Truth: "the CUDA toolkit that the manifest names is not here"}
		return nil, w.req.Missing
	}
	if driver == "" && w.req.Compiler != "" && !isClang(w.req.Compiler) {
		w.misses = toolchain.Missed{Attribute: "compiler", Truth: "there is no " + w.req.Compiler}
		return nil, "Name an nvcc that is here, or remove compiler: kbuild looks in CUDA_HOME, PATH and /usr/local/cuda then."
	}
	if driver == "" {
		return nil, "Looked for " + strings.Join(looked, ", ") + ". Install a CUDA toolkit (on Debian and Ubuntu: apt install nvidia-cuda-toolkit, from non-free or multiverse), or set CUDA_HOME. " + installs
	}
	k := &cuda.Toolkit{NVCC: toolchain.Tool{Path: driver}}
	if msg := w.versionOf(k); msg != "" {
		return nil, msg
	}
	if w.req.Accepts != nil && !w.req.Accepts(k.Version) {
		w.misses = toolchain.Missed{Attribute: "version", Truth: fmt.Sprintf("%s is CUDA %s, and the manifest wants %s", driver, k.Version, w.req.Version)}
		return nil, "Set CUDA_HOME to another toolkit, name its compiler in the toolchain block, or have kbuild install one: from = \"pypi\" (CUDA 13) and kbuild toolkit install."
	}
	d, msg := w.dryRun(driver)
	if msg != "" {
		return nil, msg
	}
	if msg := w.hostOf(k, d); msg != "" {
		return nil, msg
	}
	k.Root = filepath.Dir(d.here)
	k.LibDirs, k.Includes = d.libDirs, d.includes
	k.LibNVVM, k.LTOFault = w.libNVVM(d, k.Version)
	k.LibDir, k.CUDART, k.LibFaults = d.libDir, w.sharedRuntime(d), w.libFaults(d, k.Version)
	w.parts = d.parts(w, driver, k.LibNVVM)
	k.LibPath = d.startWith
	w.addLibrariesOf(d, k.HostCXX.ID)
	if err := w.identify(k, d); err != nil {
		return nil, err.Error()
	}
	k.Programs = map[string]string{}
	for _, t := range nvcc.Programs {
		k.Programs[t] = w.parts[t]
	}
	if tile := w.parts[nvcc.TileIRAS]; tile != "" {
		k.Programs[nvcc.TileIRAS] = tile
	}
	k.LTOFloats = w.ltoFloats(k, d)
	k.FatbinC = w.fatbinC(k.Programs["fatbinary"])
	k.Mixed = w.mixed(d, k)
	if isClang(w.req.Compiler) {
		var msg string
		if k.Clang, msg = w.clang(k, d.irLibs); msg != "" {
			return nil, msg
		}
	}
	return k, ""
}

// hostOf finds the host compiler of a toolkit, or returns why it has none.
func (w *hostEnv) hostOf(k *cuda.Toolkit, d dry) string {
	k.HostCXX = w.hostCXX(d.header("crt/host_config.h"))
	asked := w.req.HostCompiler
	switch {
	case k.HostCXX.Path != "" || isClang(w.req.Compiler):
		if asked != "" && !w.fits(k.HostCXX) {
			k.HostFault = fmt.Sprintf("%s is version %s, and CUDA %s takes gcc up to %d", asked, k.HostCXX.Version, k.Version, w.limit)
		}
		return ""
	case asked == "":
		w.misses = toolchain.Missed{Truth: fmt.Sprintf("CUDA %s has no host compiler here", k.Version)}
	case w.lookup(asked, w.env("PATH")) == "":
		w.misses = toolchain.Missed{Attribute: "host_compiler", Truth: "there is no " + asked}
	default:
		w.misses = toolchain.Missed{Attribute: "host_compiler", Truth: asked + " does not work as a host compiler"}
	}
	return k.HostCXX.Error
}

// identify sets two fingerprints of a toolkit's content: one with its host compiler, and one of its
// own programs alone.
func (w *hostEnv) identify(k *cuda.Toolkit, d dry) (err error) {
	folders := d.nvvmPath + "\n" + d.irLibs
	if k.NVCC.ID, err = w.fingerprint(w.parts, k.Build, k.HostCXX.ID, folders); err != nil {
		return err
	}
	own := maps.Clone(w.parts)
	maps.DeleteFunc(own, func(role, _ string) bool { return strings.HasPrefix(role, ofHostCXX) })
	k.Parts.ID, err = w.fingerprint(own, k.Build, folders)
	k.NVCC.Version, k.Parts.Version = k.Build, k.Build
	return err
}

// fatbinC has fatbinary write C text for a small image, with and without relocatable device code. A
// form that the toolkit cannot write is omitted: nvcc then runs unsplit.
func (w *hostEnv) fatbinC(fatbinary string) map[string]string {
	dir := w.folderWith("a.ptx", ".version 7.0\n.target sm_70\n.address_size 64\n")
	defer os.RemoveAll(dir)
	if dir == "" || fatbinary == "" {
		return nil
	}
	ptx, out := filepath.Join(dir, "a.ptx"), filepath.Join(dir, "a.fatbin.c")
	texts := map[string]string{}
	for form, option := range map[string][]string{"whole": nil, "rdc": {"--device-c"}} {
		argv := append([]string{fatbinary, "-64", "--embedded-fatbin=" + out, "--image3=kind=ptx,sm=70,file=" + ptx}, option...)
		if _, err := w.answer(argv...); err != nil {
			continue
		}
		if text, err := regular.Read(out); err == nil {
			texts[form] = string(text)
		}
	}
	return texts
}

// findNVCC looks for nvcc in its usual places; looked lists them.
func (w *hostEnv) findNVCC() (nvcc string, looked []string) {
	name := w.req.Compiler
	if name == "" || isClang(name) {
		name = "nvcc"
	}
	try := func(p, say string) bool {
		looked = append(looked, say)
		if isProgram(p) {
			nvcc = p
			return true
		}
		w.absent[p] = true
		return false
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if dir := w.env(v); dir != "" && name == "nvcc" && try(filepath.Join(dir, "bin", "nvcc"), "$"+v+"/bin/nvcc") {
			return nvcc, looked
		}
	}
	looked = append(looked, name+" in PATH")
	if p := w.lookup(name, w.env("PATH")); p != "" {
		return p, looked
	}
	if name != "nvcc" {
		return "", looked
	}
	if try("/usr/local/cuda/bin/nvcc", "/usr/local/cuda/bin/nvcc") {
		return nvcc, looked
	}
	looked = append(looked, "/usr/local/cuda-*/bin/nvcc")
	return newest("/usr/local"), looked
}

// newest returns the nvcc of the newest cuda-N.M below dir, or "" if dir has none.
func newest(dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "cuda-*", "bin", "nvcc"))
	version := func(nvcc string) (v []int) { // 12.4 is newer than 9.2
		name := filepath.Base(filepath.Dir(filepath.Dir(nvcc)))
		for _, part := range strings.Split(strings.TrimPrefix(name, "cuda-"), ".") {
			n, _ := strconv.Atoi(part)
			v = append(v, n)
		}
		return v
	}
	slices.SortStableFunc(found, func(a, b string) int { return slices.Compare(version(a), version(b)) })
	for i := len(found) - 1; i >= 0; i-- {
		if isProgram(found[i]) {
			return found[i]
		}
	}
	return ""
}

var versionRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`release (\d+\.\d+), V(\d+\.\d+\.\d+)`) })

var suffixedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'sm_\d+[af]'`) })

func (w *hostEnv) versionOf(k *cuda.Toolkit) string {
	out, err := w.output(k.NVCC.Path, "--version")
	m := versionRE().FindStringSubmatch(out)
	if err != nil || m == nil {
		return fmt.Sprintf("%s --version says what kbuild does not understand: %.200s", k.NVCC.Path, strings.TrimSpace(out))
	}
	k.Version, k.Build = m[1], m[2]
	out, err = w.output(k.NVCC.Path, "--list-gpu-code")
	if err != nil {
		return fmt.Sprintf("%s --list-gpu-code failed: %.200s; kbuild needs CUDA 11.2 or newer", k.NVCC.Path, strings.TrimSpace(out))
	}
	help, _ := w.output(k.NVCC.Path, "--help") // only --help lists sm_90a and sm_100f
	for _, word := range append(strings.Fields(out), suffixedRE().FindAllString(help, -1)...) {
		if c, err := gencode.Parse(strings.Trim(word, "'")); err == nil && c.Kind == gencode.SASS && !slices.Contains(k.Archs, c) {
			k.Archs = append(k.Archs, c)
		}
	}
	slices.SortFunc(k.Archs, gencode.Compare) // 13.4 lists 107 after 121
	return ""
}

// dry is the parsed output of `nvcc --dryrun`.
type dry struct {
	here, path, ciccPath, nvvmPath, linkStub, irLibs string
	// libDir is the folder of libDirs that the toolkit has although nvcc names another.
	libDir            string
	libDirs, includes []string
	libPath           []string // the loader's search path for the steps
	startWith         string   // see cuda.Toolkit.LibPath
}

var assignRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#\$ ([A-Za-z_]+)=(.*)$`) })

// dryRun queries the steps of an LTO link. It runs no step and needs no input file.
func (w *hostEnv) dryRun(nvcc string) (dry, string) {
	out, err := w.output(nvcc, "--dryrun", "-dlto", "-gencode", "arch=compute_80,code=sm_80", "kbuild-probe.o", "-o", "kbuild-probe")
	if err != nil {
		return dry{}, fmt.Sprintf("%s --dryrun failed: %.300s; kbuild needs CUDA 11.2 or newer", nvcc, strings.TrimSpace(out))
	}
	var d dry
	for _, line := range strings.Split(out, "\n") {
		m := assignRE().FindStringSubmatch(line)
		if m == nil {
			d.step(line)
			continue
		}
		switch m[1] {
		case "_HERE_":
			d.here = m[2]
		case "PATH":
			d.path = m[2]
		case "CICC_PATH": // 12.5 and newer: PATH no longer leads to cicc
			d.ciccPath = m[2]
		case "NVVMIR_LIBRARY_DIR":
			d.irLibs = m[2]
		case "LD_LIBRARY_PATH":
			dirs := toolchain.LibraryPath(m[2])
			if d.libPath = filepath.SplitList(dirs); dirs != m[2] {
				d.startWith = dirs
			}
		case "LIBRARIES":
			d.libDirs = dirsOf(m[2])
		case "INCLUDES":
			d.includes = append(dirsOf(m[2]), d.includes...)
		case "SYSTEM_INCLUDES": // 13 and newer: CUB and Thrust are in a folder of their own
			d.includes = append(d.includes, dirsOf(m[2])...)
		}
	}
	if d.here == "" {
		return dry{}, fmt.Sprintf("%s --dryrun does not say where the toolkit is", nvcc)
	}
	d.findLibraries()
	return d, ""
}

// step reads the nvvm folder and the link stub from a command of the link. Words may contain
// blanks, since folders may.
func (d *dry) step(line string) {
	words, err := toolchain.ShellWords(strings.TrimPrefix(line, "#$ "), nil)
	if err != nil {
		return
	}
	for _, word := range words {
		if dir, ok := strings.CutPrefix(word, "-nvvmpath="); ok {
			d.nvvmPath = dir
		}
		if filepath.Base(word) == "link.stub" {
			d.linkStub = word
		}
	}
}

// dirsOf returns the folders in options such as "-L/x/lib" -I/y "-isystem" "/z".
func dirsOf(flags string) (dirs []string) {
	words, err := toolchain.ShellWords(flags, nil)
	if err != nil {
		return nil
	}
	for i, word := range words {
		for _, option := range []string{"-isystem", "-L", "-I"} {
			dir, ok := strings.CutPrefix(word, option)
			if ok && dir == "" && i+1 < len(words) {
				dir = words[i+1]
			}
			if ok && dir != "" {
				dirs = append(dirs, filepath.Clean(dir))
			}
		}
	}
	return dirs
}

// header returns the path of a header of the toolkit, or "" if it is not found.
func (d dry) header(name string) string {
	dirs := append(slices.Clone(d.includes), filepath.Join(d.here, "..", "include"), filepath.Join(d.here, "..", "targets", "x86_64-linux", "include"))
	if d.ofSystem() {
		dirs = append(dirs, "/usr/include")
	}
	for _, dir := range dirs {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	return ""
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// parts returns the files that a compile or a link of this toolkit runs or reads on its own
// account, by role. The file of an unused role is "".
func (d dry) parts(w *hostEnv, program, libNVVM string) map[string]string {
	parts := map[string]string{"nvcc": program}
	w.watch(d.root()) // nvcc looks for folders of targets
	for _, dir := range filepath.SplitList(d.path) {
		if !slices.Contains(filepath.SplitList(w.env("PATH")), dir) {
			w.watch(dir) // nvcc looks here first for its passes, and gcc for its assembler
		}
	}
	for _, t := range nvcc.Programs {
		path := d.path
		if t == "cicc" && d.ciccPath != "" {
			path = d.ciccPath + string(filepath.ListSeparator) + path
		}
		parts[t] = w.lookup(t, path)
	}
	if tile := w.lookup(nvcc.TileIRAS, d.path); tile != "" {
		parts[nvcc.TileIRAS] = tile
	}
	only := func(role, file string) {
		parts[role] = ""
		if file != "" && w.there(file) {
			parts[role] = file
		}
	}
	if IsScript(program) {
		w.follow(program, parts, map[string]bool{})
	}
	only("nvcc itself", filepath.Join(d.here, "nvcc")) // nvcc may be a script that runs this one
	only("nvcc.profile", filepath.Join(d.here, "nvcc.profile"))
	only("link.stub", d.linkStub)
	only("libnvvm", cmp.Or(libNVVM, d.nvlinkLoads()))
	bc, _ := filepath.Glob(filepath.Join(d.irLibs, "*.bc"))
	for _, p := range bc {
		only(filepath.Base(p), p)
	}
	only("sh", "/bin/sh") // nvcc runs its passes by it
	// Headers that cudafe++'s host code includes, and that no dependency file of nvcc names.
	for _, h := range nvcc.HostHeaders {
		only(h, d.header(h))
	}
	for _, l := range []string{"libcudadevrt.a", "libcudart_static.a"} {
		only(l, w.library(d, l))
	}
	return parts
}
