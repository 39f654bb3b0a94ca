package nvcc

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// A dry run of nvcc names the parts of its toolkit; nothing is guessed from a layout.
//
// A link searches for the toolkit's libraries. A search that fails in the toolkit continues in the
// system, since the linker's own folders follow those that nvcc names. A toolkit may name another
// library folder than it has: pip's 13.0 names lib64, and has lib. Where Debian's 11.8 is installed
// too, such a toolkit is linked with the runtime of 11.8 without a warning.

// finder finds one toolkit.
type finder struct {
	*find.Finder
	find.Wanted
	dry
	*cuda.Toolkit
	parts map[string]string // by role; "" is absent
	code  map[gencode.Kind]string
}

// installs explains to the user how kbuild itself installs a toolkit.
const installs = `Or have kbuild install one, without root: give toolchain "cuda" of kernels.hcl version = "13.5.0" and ` +
	`from = "pypi", and run kbuild toolkit lock and kbuild toolkit install.`

// Find finds and identifies the CUDA toolkit.
func (k *Toolchain) Find(host *find.Finder, want find.Wanted) {
	if want.Folder != "" {
		want.Compiler = want.Folder + "/bin/nvcc"
		if want.Missing == "" {
			want.MissingOf, want.Missing = "path", "path is the folder of a CUDA toolkit, and there is no "+want.Compiler+"."
		}
	}
	f := finder{Finder: host, Wanted: want, Toolkit: &cuda.Toolkit{}}
	if k.Host = f.find(); k.Missing == "" {
		k.Toolkit, k.Code = f.Toolkit, f.code
	}
}

// find finds the toolkit, or returns why there is none.
func (f *finder) find() (none cuda.Host) {
	fail := func(format string, args ...any) cuda.Host {
		none.Missing = fmt.Sprintf(format, args...)
		return none
	}
	places, looked := f.places(false)
	i := slices.IndexFunc(places, f.IsProgram)
	switch {
	case i >= 0:
		f.NVCC.Path = places[i]
	case f.Wanted.Missing != "":
		none.Misses = toolchain.Missed{Attribute: f.MissingOf, Truth: "the CUDA toolkit that the manifest names is not here"}
		return fail("%s", f.Wanted.Missing)
	case f.Compiler != "" && !find.IsClang(f.Compiler):
		none.Misses = toolchain.Missed{Attribute: "compiler", Truth: "there is no " + f.Compiler}
		return fail("Name an nvcc that is here, or remove compiler: kbuild looks in CUDA_HOME, PATH and /usr/local/cuda then.")
	default:
		return fail("Looked for %s. Install a CUDA toolkit (on Debian and Ubuntu: apt install nvidia-cuda-toolkit, from non-free or multiverse), or set CUDA_HOME. %s",
			strings.Join(looked, ", "), installs)
	}
	nvcc := f.NVCC.Path
	if msg := f.findVersion(); msg != "" {
		return fail("%s", msg)
	}
	if !f.Accepts.Allows(f.Toolkit.Version) {
		none.Misses = toolchain.Missed{Attribute: "version", Truth: fmt.Sprintf("%s is CUDA %s, and the manifest wants %s", nvcc, f.Toolkit.Version, f.Wanted.Version)}
		return fail("Set CUDA_HOME to another toolkit, name its compiler in the toolchain block, or have kbuild install one: from = \"pypi\" (CUDA 13) and kbuild toolkit install.")
	}
	// An LTO link runs no step and needs no input file.
	out, err := f.Output(nvcc, "--dryrun", "-dlto", "-gencode", "arch=compute_80,code=sm_80", "kbuild-probe.o", "-o", "kbuild-probe")
	if err != nil {
		return fail("%s --dryrun failed: %.300s; kbuild needs CUDA 11.2 or newer", nvcc, strings.TrimSpace(out))
	}
	if f.dry = readDry(out); f.here == "" {
		return fail("%s --dryrun does not say where the toolkit is", nvcc)
	}
	f.Root, f.DeviceLibs, f.LibDirs, f.Includes, f.LibPath = path.Dir(f.here), f.irLibs, f.libDirs, f.includes, f.startWith
	if none.Misses = f.findHost(); f.HostCXX.Path == "" && !find.IsClang(f.Compiler) {
		return fail("%s", f.HostCXX.Error)
	}
	f.findLibraries()
	f.findLibNVVM()
	f.findParts()
	if err := f.identify(); err != nil {
		return fail("%s", err.Error())
	}
	f.Programs = map[string]string{}
	for _, t := range append([]string{TileIRAS}, Programs...) {
		if file, ok := f.parts[t]; ok {
			f.Programs[t] = file
		}
	}
	f.LTOFloats = f.tryFloats()
	f.FatbinC = f.fatbinC()
	f.Mixed = f.mixed()
	for _, part := range append(slices.Clone(Programs), "link.stub", "libcudadevrt.a", "libcudart_static.a") {
		if f.parts[part] == "" && f.LibFaults[part] == "" {
			f.Lacks = append(f.Lacks, part)
		}
	}
	return cuda.Host{}
}

// places returns the paths where an nvcc may be, in order, and the same for messages; only the
// first ones if one of those is enough.
func (f *finder) places(all bool) (paths, looked []string) {
	name := f.Compiler
	if name == "" || find.IsClang(name) {
		name = "nvcc"
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if dir := f.Env[v]; dir != "" && name == "nvcc" {
			paths, looked = append(paths, path.Join(dir, "bin/nvcc")), append(looked, "$"+v+"/bin/nvcc")
		}
	}
	looked = append(looked, name+" in PATH")
	if strings.Contains(name, "/") {
		return []string{f.Lookup(name)}, looked
	}
	for _, dir := range strings.Split(f.Env["PATH"], ":") {
		if path.IsAbs(dir) {
			paths = append(paths, path.Join(dir, name))
		}
	}
	if name != "nvcc" || !all && slices.ContainsFunc(paths, f.IsProgram) {
		return paths, looked
	}
	for _, dir := range append([]string{"/usr/local/cuda"}, find.NewestFirst(f.Glob("/usr/local", "cuda-*"))...) {
		paths = append(paths, dir+"/bin/nvcc")
	}
	return paths, append(looked, "/usr/local/cuda/bin/nvcc", "/usr/local/cuda-*/bin/nvcc")
}

var (
	versionRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`release (\d+\.\d+), V(\d+\.\d+\.\d+)`) })
	suffixedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'sm_\d+[af]'`) })
	releaseRE  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Cuda compilation tools, release (\d+\.\d+)`)
	})
	runtimeRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^#define CUDART_VERSION\s+(\d+)(\d\d)\d$`)
	})
	hostLimitRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`gcc versions later than (\d+)`) })
)

// findVersion finds the version and the architectures, or returns why it cannot.
func (f *finder) findVersion() string {
	k := f.Toolkit
	out, err := f.Output(k.NVCC.Path, "--version")
	m := versionRE().FindStringSubmatch(out)
	if err != nil || m == nil {
		return fmt.Sprintf("%s --version says what kbuild does not understand: %.200s", k.NVCC.Path, strings.TrimSpace(out))
	}
	k.Version, k.Build = m[1], m[2]
	out, err = f.Output(k.NVCC.Path, "--list-gpu-code")
	if err != nil {
		return fmt.Sprintf("%s --list-gpu-code failed: %.200s; kbuild needs CUDA 11.2 or newer", k.NVCC.Path, strings.TrimSpace(out))
	}
	help, _ := f.Output(k.NVCC.Path, "--help") // only --help lists sm_90a and sm_100f
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
	libDirs, includes                                []string

	libPath   []string // the loader's search path for the steps
	startWith string   // see cuda.Toolkit.LibPath
}

var assignRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#\$ ([A-Za-z_]+)=(.*)$`) })

func readDry(out string) (d dry) {
	for line := range strings.SplitSeq(out, "\n") {
		m := assignRE().FindStringSubmatch(line)
		if m == nil {
			// A command of the link. Words may contain blanks, since folders may.
			words, _ := toolchain.ShellWords(strings.TrimPrefix(line, "#$ "), nil)
			for _, word := range words {
				if dir, ok := strings.CutPrefix(word, "-nvvmpath="); ok {
					d.nvvmPath = dir
				}
				if path.Base(word) == "link.stub" {
					d.linkStub = word
				}
			}
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
			if d.libPath = strings.FieldsFunc(dirs, func(c rune) bool { return c == ':' }); dirs != m[2] {
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
	return d
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
				dirs = append(dirs, path.Clean(dir))
			}
		}
	}
	return dirs
}

// ofSystem reports whether a distribution has spread the toolkit over /usr.
func (d dry) ofSystem() bool {
	root := path.Dir(d.here)
	return strings.HasPrefix(root, "/usr/") && !strings.HasPrefix(root, "/usr/local/")
}

// header returns the path of a header of the toolkit, or "" if it is not found.
func (f *finder) header(name string) string {
	dirs := append(slices.Clone(f.includes), path.Join(f.Root, "include"), path.Join(f.Root, "targets/x86_64-linux/include"))
	if f.ofSystem() {
		dirs = append(dirs, "/usr/include")
	}
	for _, dir := range dirs {
		if p := path.Join(dir, name); f.Exists(p) {
			return p
		}
	}
	return ""
}

// findHost chooses the host compiler, and returns the requirement that none satisfies.
//
// nvcc always gets the choice by -ccbin. By default Debian's 11.8 queries the version of the g++ of
// PATH (12), but then runs the g++-11 of its own folder. The device code is then compiled for a
// compiler that is not used. Host sources and links use the same compiler, since two versions of
// libstdc++ do not mix.
func (f *finder) findHost() (none toolchain.Missed) {
	asked := f.HostCompiler
	if file := f.header("crt/host_config.h"); file != "" {
		text, _ := f.Read(file)
		if m := hostLimitRE().FindSubmatch(text); m != nil {
			f.HostLimit, _ = strconv.Atoi(string(m[1]))
		}
	}
	f.HostCXX = f.FindCompilerUpTo(f.HostLimit, asked)
	switch {
	case f.HostCXX.Path != "" || find.IsClang(f.Compiler):
		if asked != "" && !find.Fits(f.HostCXX, f.HostLimit) {
			f.HostFault = fmt.Sprintf("%s is version %s, and CUDA %s takes gcc up to %d", asked, f.HostCXX.Version, f.Toolkit.Version, f.HostLimit)
		}
	case asked == "":
		none.Truth = fmt.Sprintf("CUDA %s has no host compiler here", f.Toolkit.Version)
	case f.Lookup(asked) == "":
		none = toolchain.Missed{Attribute: "host_compiler", Truth: "there is no " + asked}
	default:
		none = toolchain.Missed{Attribute: "host_compiler", Truth: asked + " does not work as a host compiler"}
	}
	return none
}

// systemLibDirs are folders that a linker searches on its own account.
var systemLibDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}

// library returns the file that a link with the toolkit uses for a library, or "" if none is found.
func (f *finder) library(name string) string {
	for _, dir := range slices.Concat(f.LibDirs, systemLibDirs) {
		if p := path.Join(dir, name); f.Exists(p) {
			return p
		}
	}
	return ""
}

// own returns the first file of the toolkit that matches one of some patterns.
func (f *finder) own(patterns ...string) string {
	for _, pattern := range patterns {
		if found := f.Glob(f.Root, pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// findLibraries finds which libraries a link would use, and adds the library folder of a toolkit
// whose nvcc names another: pip's 13.0 and 13.1 name lib64, and have lib. It reports why a link
// would use another toolkit's library; if nvcc names no folders, or the library is not found, the
// linker decides.
func (f *finder) findLibraries() {
	f.LibFaults = map[string]string{}
	if len(f.libDirs) == 0 || f.ofSystem() {
		return
	}
	has := func(name string) bool {
		return slices.ContainsFunc(f.LibDirs, func(dir string) bool { return f.Exists(path.Join(dir, name)) })
	}
	for _, name := range []string{"libcudadevrt.a", "libcudart_static.a"} { // one of them may be missing
		if has(name) {
			continue
		}
		if own := f.own("lib*/"+name, "targets/*/lib*/"+name); own != "" {
			f.LibDir = path.Dir(own)
			f.LibDirs = append(slices.Clone(f.LibDirs), f.LibDir)
			break
		}
	}
	// pip may have installed the shared runtime only as libcudart.so.13.
	last := f.LibDirs[len(f.LibDirs)-1]
	if shared := f.Glob(last, "libcudart.so*"); len(shared) > 0 && path.Base(shared[0]) != "libcudart.so" {
		f.CUDART = ":" + path.Base(shared[0])
	}
	for _, name := range Libraries {
		found := f.library(name)
		if found == "" || has(name) || name == "libcudart.so" && f.CUDART != "" {
			continue
		}
		f.LibFaults[name] = fmt.Sprintf("The toolkit has no %s in %s, and a link would take %s, which is of another version. Install the runtime of CUDA %s there (pip: nvidia-cuda-runtime).",
			name, last, found, f.Toolkit.Version)
	}
}

// findLibNVVM finds libnvvm where it is not in the folder that nvlink searches, as in pip's package
// and in Debian's. nvlink then prints "elfLink linker library load error". The library of another
// toolkit does not help: 11.8's reads no LTO-IR of 13.
func (f *finder) findLibNVVM() {
	want := f.nvlinkLoads()
	if want == "" || f.Exists(want) {
		return
	}
	own := f.own("lib*/libnvvm.so*", "nvvm/lib*/libnvvm.so*", "targets/*/lib*/libnvvm.so*")
	if own == "" && f.ofSystem() {
		for _, file := range f.Glob("/usr/lib", "*-linux-gnu/libnvvm.so*") {
			own = cmp.Or(own, file)
		}
	}
	if f.LibNVVM = own; own == "" {
		f.LTOFault = fmt.Sprintf("nvlink -dlto needs %s, which is missing; install libnvvm of CUDA %s (pip: nvidia-nvvm).", want, f.Toolkit.Version)
		return
	}
	file := toolchain.ShellWord(want)
	f.LTOFault = fmt.Sprintf("nvlink -dlto needs %s, which this package does not install. Run: mkdir -p %s && ln -s %s %s",
		want, toolchain.ShellWord(path.Dir(want)), toolchain.ShellWord(own), file)
}

// nvlinkLoads returns the path from which nvlink -dlto loads libnvvm, or "" if nvcc names no folder
// for it.
func (d dry) nvlinkLoads() string {
	if d.nvvmPath == "" {
		return ""
	}
	return path.Join(d.nvvmPath, "lib64/libnvvm.so")
}

// ofHostCXX is the prefix of the roles of parts that only the host compiler loads.
const ofHostCXX = "host compiler "

// findParts finds the files that a compile or a link of this toolkit runs or reads on its own
// account. nvcc.profile may prepend a folder of the toolkit to LD_LIBRARY_PATH. All that nvcc
// starts then loads libraries from it before the system's, including the shell and the host
// compiler.
func (f *finder) findParts() {
	program := f.NVCC.Path
	f.parts = map[string]string{"nvcc": program}
	f.List(f.Root) // nvcc looks for folders of targets
	inPath := strings.Split(f.Env["PATH"], ":")
	for _, dir := range strings.Split(f.path, ":") {
		if dir != "" && !slices.Contains(inPath, dir) {
			f.List(dir) // nvcc looks here first for its passes, and gcc for its assembler
		}
	}
	for _, t := range Programs {
		list := f.path
		if t == "cicc" && f.ciccPath != "" {
			list = f.ciccPath + ":" + list
		}
		f.parts[t] = f.LookupIn(t, list)
	}
	if tile := f.LookupIn(TileIRAS, f.path); tile != "" {
		f.parts[TileIRAS] = tile
	}
	if file, _ := f.Stat(program); file.Script {
		f.Follow(program, f.parts)
	}
	files := map[string]string{
		"nvcc itself":  path.Join(f.here, "nvcc"), // nvcc may be a script that runs this one
		"nvcc.profile": path.Join(f.here, "nvcc.profile"),
		"link.stub":    f.linkStub,
		"libnvvm":      cmp.Or(f.LibNVVM, f.nvlinkLoads()),
		"sh":           "/bin/sh", // nvcc runs its passes by it
	}
	for _, file := range f.Glob(f.irLibs, "*.bc") {
		files[path.Base(file)] = file
	}
	// Headers that cudafe++'s host code includes, and that no dependency file of nvcc names.
	for _, h := range HostHeaders {
		files[h] = f.header(h)
	}
	for _, l := range []string{"libcudadevrt.a", "libcudart_static.a"} {
		files[l] = f.library(l)
	}
	for role, file := range files {
		if f.parts[role] = file; !f.Exists(file) {
			f.parts[role] = ""
		}
	}
	f.AddLibraries(f.parts, []string{"nvcc", "nvcc itself"})
	f.AddLibraries(f.parts, append([]string{"libnvvm", TileIRAS}, Programs...), f.libPath...)
	if len(f.libPath) == 0 {
		return
	}
	for _, part := range append(slices.Clone(f.Covers[f.HostCXX.ID]), f.parts["sh"]) {
		for name, file := range f.Libraries(part, f.libPath...) {
			if slices.ContainsFunc(f.libPath, func(dir string) bool { return strings.HasPrefix(path.Clean(file), path.Clean(dir)+"/") }) {
				f.parts[ofHostCXX+name] = file
			}
		}
	}
}

// identify sets two fingerprints of a toolkit's content: one with its host compiler, and one of its
// own programs alone.
func (f *finder) identify() (err error) {
	folders := f.nvvmPath + "\n" + f.irLibs
	if f.NVCC.ID, err = f.Identify(f.parts, f.Build, f.HostCXX.ID, folders); err != nil {
		return err
	}
	own := maps.Clone(f.parts)
	maps.DeleteFunc(own, func(role, _ string) bool { return strings.HasPrefix(role, ofHostCXX) })
	f.Parts.ID, err = f.Identify(own, f.Build, folders)
	f.NVCC.Version, f.Parts.Version = f.Build, f.Build
	return err
}

// fatbinC has fatbinary write C text for a small image, with and without relocatable device code. A
// form that the toolkit cannot write is omitted: nvcc then runs unsplit.
func (f *finder) fatbinC() map[string]string {
	if f.Programs["fatbinary"] == "" {
		return nil
	}
	texts := map[string]string{}
	for form, option := range map[string][]string{"whole": nil, "rdc": {"--device-c"}} {
		argv := []string{f.Programs["fatbinary"], "-64", "--embedded-fatbin=a.fatbin.c", "--image3=kind=ptx,sm=70,file=a.ptx"}
		r := f.Run(find.Command{Argv: append(argv, option...), Outputs: []string{"a.fatbin.c"},
			Files: map[string]string{"a.ptx": ".version 7.0\n.target sm_70\n.address_size 64\n"}})
		if text, ok := r.Files["a.fatbin.c"]; ok && r.Err == nil {
			texts[form] = text
		}
	}
	return texts
}

// mixed reports parts of another version than nvcc. pip installs the newest version of each package
// that is not pinned. The first error is ptxas's (`Unsupported .version 9.5; current version is
// '9.0'`); PTX and LTO-IR are generated without a warning.
func (f *finder) mixed() string {
	var other []string
	differs := func(what, version string) {
		if version != "" && version != f.Toolkit.Version {
			other = append(other, what+" of "+version)
		}
	}
	f.generate()
	differs("cicc is", release([]byte(f.code[gencode.PTX])))
	// libnvvm contains the release that it writes into PTX, and has no function that returns it. Its
	// soname, the results of nvvmVersion and the revision of its code are not releases.
	if file := f.parts["libnvvm"]; file != "" {
		text, _ := f.Read(file)
		differs("libnvvm is", release(text))
	}
	if file := f.header("cuda_runtime_api.h"); file != "" {
		text, _ := f.Read(file)
		if m := runtimeRE().FindSubmatch(text); m != nil {
			differs("the headers of the runtime are", fmt.Sprintf("%s.%s", m[1], strings.TrimPrefix(string(m[2]), "0")))
		}
	}
	if len(other) == 0 {
		return ""
	}
	return fmt.Sprintf("nvcc is of CUDA %[1]s, %s. Install all of one version (pip: 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==%[1]s.*').", f.Toolkit.Version, strings.Join(other, ", "))
}

func release(text []byte) string {
	if m := releaseRE().FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// generate has the toolkit generate all kinds of code from an empty source. The PTX contains the
// release of cicc, which has no option that prints it. The versions of the code matter too: the
// toolkit's linker rejects newer ones; for newer LTO-IR it prints only "elfLink nvvm error".
func (f *finder) generate() {
	if f.Programs["cicc"] == "" || f.Programs["ptxas"] == "" || len(f.Archs) == 0 {
		return
	}
	arch := f.Archs[0]
	r := f.Run(find.Command{Files: map[string]string{"a.ii": ""}, Outputs: []string{"a.ptx", "a.ltoir", "a.cubin"},
		Argv: []string{f.Programs["cicc"], "-arch", arch.Virtual(), "-m64", "a.ii", "-olto", "a.ltoir", "-o", "a.ptx"},
		Then: [][]string{{f.Programs["ptxas"], "-arch=" + arch.String(), "-m64", "a.ptx", "-o", "a.cubin"}}})
	f.code = map[gencode.Kind]string{gencode.PTX: r.Files["a.ptx"], gencode.LTO: r.Files["a.ltoir"], gencode.SASS: r.Files["a.cubin"]}
}

// nvlink of CUDA 13 loses the floating-point options that LTO-IR was compiled with. The program
// then computes other results, and nvlink exits with status 0. A trial finds whether a toolkit does
// so. It compiles a kernel that multiplies and adds, with denormals flushed and without
// contraction, and links it to PTX.

const multiplyAdd = `extern "C" __attribute__((global)) void k(float *p) { *p = p[1] * p[2] + p[3]; }` + "\n"

// tryFloats returns the value of Toolkit.LTOFloats.
func (f *finder) tryFloats() cuda.LTOFloats {
	cicc, fatbinary, nvlink := f.Programs["cicc"], f.Programs["fatbinary"], f.Programs["nvlink"]
	if cicc == "" || fatbinary == "" || nvlink == "" {
		return cuda.FloatsKept
	}
	if len(f.Archs) == 0 {
		return cuda.FloatsUntried
	}
	const options = "-ftz=1 -prec_div=1 -prec_sqrt=1 -fmad=0"
	arch := f.Archs[0]
	image := "--image3=kind=nvvm,sm=" + strings.TrimPrefix(arch.As(gencode.SASS).String(), "sm_") + ",file=a.ltoir"
	nvvm, links := f.nvvmPath, map[string]string{}
	if f.LibNVVM != "" {
		nvvm, links["nvvm/lib64/libnvvm.so"] = "nvvm", f.LibNVVM
	}
	link := func(more ...string) string {
		return f.Run(find.Command{Files: map[string]string{"a.ii": multiplyAdd}, Links: links, Outputs: []string{"a.ptx"},
			Argv: slices.Concat([]string{cicc, "-arch", arch.Virtual(), "-m64"}, strings.Fields(options), []string{"--device-c", "-lto", "a.ii", "-o", "a.ltoir"}),
			Then: [][]string{
				{fatbinary, "-64", "--device-c", "--cicc-cmdline=" + options + " ", image, "--create=a.fatbin"},
				append([]string{nvlink, "-m64", "--arch=" + arch.String(), keepAll, "-emit-ptx", "-o", "a.ptx", "-dlto", "-nvvmpath=" + nvvm, "a.fatbin"}, more...),
			}}).Files["a.ptx"]
	}
	const kept = "mul.rn.ftz.f32"
	switch ptx := link(); {
	case strings.Contains(ptx, kept):
		return cuda.FloatsKept
	case !strings.Contains(ptx, "fma.rn.f32"):
		return cuda.FloatsUntried
	case strings.Contains(link(cuda.Arithmetic(toolchain.Floats{FTZ: true, PrecDiv: true})), kept):
		return cuda.FloatsTold
	}
	return cuda.FloatsLost
}

// Doctor reports whether the toolkit that a build would use is complete, and which others are
// installed.
func (k *Toolchain) Doctor(host *find.Finder, want find.Wanted) (list []find.Finding) {
	if k.Toolkit == nil {
		return []find.Finding{{Status: find.Fails, What: "CUDA toolkit", Text: k.Missing}}
	}
	f := finder{Finder: host, Wanted: want, Toolkit: k.Toolkit}
	add := func(status, what, text string) {
		list = append(list, find.Finding{Status: status, What: what, Text: text})
	}
	add(find.OK, "CUDA toolkit", fmt.Sprintf("%s at %s", k.Build, k.NVCC.Path))
	if k.Clang != nil {
		add(find.OK, "CUDA compiler", find.Described(k.Clang.Driver)+" with --cuda-path="+k.Clang.CUDAPath)
	}
	used := []string{f.Real(k.NVCC.Path)} // a toolkit may have several names
	want.Compiler = ""
	all := finder{Finder: host, Wanted: want}
	places, _ := all.places(true)
	for _, p := range places {
		if f.IsProgram(p) && !slices.Contains(used, f.Real(p)) {
			used = append(used, f.Real(p))
			add(find.OK, "", "not used: "+p)
		}
	}
	if len(k.Archs) == 0 {
		add(find.Fails, "GPU code", k.NVCC.Path+" --list-gpu-code names none; install the toolkit anew.")
	} else {
		add(find.OK, "GPU code", toolchain.Range(k.Archs))
	}
	for _, part := range k.Lacks {
		add(find.Fails, part, "is missing from the toolkit; install it whole (on Debian and Ubuntu: apt install --reinstall nvidia-cuda-toolkit nvidia-cuda-dev).")
	}
	whole := len(k.Lacks) == 0
	for _, lib := range Libraries {
		switch fault := k.LibFaults[lib]; {
		case fault == "":
		case lib == "libcudart.so":
			add(find.Warns, lib, `for cudart = "shared": `+fault)
		default:
			whole = false
			add(find.Fails, lib, fault)
		}
	}
	if k.Mixed != "" {
		add(find.Warns, "versions", k.Mixed)
	}
	if whole {
		add(find.OK, "parts of the toolkit", strings.Join(Programs, ", "))
	}
	if k.Clang == nil {
		if why := f.unsplit(); why != "" {
			add(find.Warns, "taken apart", "no: "+why)
		} else {
			add(find.OK, "taken apart", "yes")
		}
	}
	if find.Fits(k.HostCXX, k.HostLimit) {
		add(find.OK, "host compiler of nvcc", find.Described(k.HostCXX))
	} else {
		add(find.Warns, "host compiler of nvcc", fmt.Sprintf("%s is newer than g++ %[2]d, the last that this toolkit accepts; name g++-%[2]d as host_compiler of the toolchain block.", find.Described(k.HostCXX), k.HostLimit))
	}
	if k.LibNVVM != "" {
		add(find.OK, "LTO", "nvlink is handed "+k.LibNVVM)
	} else {
		list = append(list, find.Check("LTO", k.LTOFault, "nvlink finds libnvvm"))
	}
	switch k.LTOFloats {
	case cuda.FloatsTold:
		add(find.OK, "LTO arithmetic", "nvlink forgets -ftz, -prec-div and -fmad; kbuild tells it (lto_floats)")
	case cuda.FloatsLost:
		add(find.Warns, "LTO arithmetic", `nvlink forgets -ftz, -prec-div and -fmad, and cannot be told: use mode = "rdc" with them.`)
	case cuda.FloatsUntried:
		add(find.Warns, "LTO arithmetic", "kbuild could not try whether nvlink remembers -ftz, -prec-div and -fmad (lto_floats).")
	}
	if f.LookupIn("cuobjdump", path.Join(k.Root, "bin")+":"+f.Env["PATH"]) == "" {
		add(find.Warns, "cuobjdump", "was not found; builds do not need it, it disassembles device code.")
	}
	return list
}

// unsplit returns why nvcc runs as one command for plain code, or "" if its steps can be split. It
// queries nvcc as a build does.
func (f *finder) unsplit() string {
	if missing := Missing(f.Programs); missing != "" {
		return missing
	}
	if len(f.Archs) == 0 {
		return "it compiles for no architecture"
	}
	cc := Driver{Path: f.NVCC.Path, HostCXX: f.HostCXX.Path}
	query := func(argv []string) (string, error) {
		text, err := f.Output(append([]string{f.NVCC.Path}, Query(argv, "a.cu", "a.o", "a.d")...)...)
		if err != nil {
			return "", fmt.Errorf("nvcc --dryrun: %w: %s", err, find.Complaint(text))
		}
		return text, nil
	}
	text, err := query(cc.Compile(toolchain.Compile{Source: "a.cu", Output: "a.o", Depfile: "a.d", Mode: "whole", Codes: f.Archs[:1]}, toolchain.Options{}))
	if err == nil {
		_, err = LearnCompile(text)
	}
	if err == nil {
		text, err = query(cc.DeviceLink(DeviceLink{Inputs: []string{toolchain.QueryInput}, Output: "a.o", Codes: f.Archs[:1]}, toolchain.Options{}))
	}
	if err == nil {
		_, err = LearnLink(text)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
