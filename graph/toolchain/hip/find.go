package hip

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// A dry run (-###) of the compiler shows what it runs and reads; nothing is guessed from a layout.
//
// ROCm is installed below one folder (/opt/rocm, which may be a link), and several versions of it
// side by side (/opt/rocm-6.3.0, /opt/rocm-7.2.4). Debian and Ubuntu spread it over /usr, where
// PATH leads to it.
//
// Only the tools of the same LLVM read its bitcode. clang looks for lld first in the folder of the
// name that it was called by. Where Debian's unversioned lld (14) is beside clang++-15 in /usr/bin,
// clang 15 runs that one. It fails with "Opaque pointers are only supported in -opaque-pointers
// mode (Producer: 'LLVM15.0.6' Reader: 'LLVM 14.0.6')", in hipcc as in kbuild.

// queryEnv makes hipcc print the command that it runs.
const queryEnv = "HIPCC_VERBOSE=1"

// finder finds one compiler.
type finder struct {
	*find.Finder
	*Compiler
	parts map[string]string
	link  clang.Steps // of a link of relocatable code
}

// Find finds and identifies the HIP compiler.
func (k *Toolchain) Find(host *find.Finder, want find.Wanted) {
	if want.Needed {
		k.Compiler, k.Missing = findCompiler(host, want)
	}
	if want.Headers {
		k.NVIDIAHeaders = findHeaders(host)
	}
}

// findCompiler finds and identifies the compiler. Its Env holds what its commands get of the
// environment, and what enters their keys. fault says why there is none.
func findCompiler(host *find.Finder, want find.Wanted) (k *Compiler, fault string) {
	// hipcc compiles for NVIDIA wherever it finds an nvcc.
	env := []string{"HIP_PLATFORM=amd"}
	for _, name := range host.ForAMD {
		if v := host.Env[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	slices.Sort(env)
	drivers, looked := findDrivers(host, want)
	if drivers == nil {
		return nil, "Looked for " + strings.Join(looked, ", ") + ". Install ROCm's HIP compiler (on Debian and Ubuntu: " +
			"apt install hipcc libamdhip64-dev, and clang-N, lld-N and rocm-device-libs of the LLVM that hipcc depends on; " +
			"else see rocm.docs.amd.com), or set ROCM_PATH."
	}
	var refused []string
	for _, driver := range drivers {
		f := finder{Finder: host, Compiler: &Compiler{Driver: toolchain.Tool{Path: driver}}}
		f.Compiler.Env = ofROCm(host, env, driver)
		if msg := f.query(); msg != "" {
			return nil, msg
		}
		version, err := f.Answer(f.Clang.Path, "-dumpversion")
		if err != nil {
			return nil, fmt.Sprintf("%s does not work: %v", f.Clang.Path, err)
		}
		// Another driver may have a version that the manifest accepts.
		if !want.Accepts.Allows(version) {
			refused = append(refused, fmt.Sprintf("%s runs clang %s", driver, version))
			continue
		}
		if err := f.identify(version); err != nil {
			return nil, err.Error()
		}
		f.try()
		return f.Compiler, ""
	}
	return nil, fmt.Sprintf("%s; the manifest wants %s. Set ROCM_PATH or the compiler of the toolchain block.", strings.Join(refused, ", "), want.Version)
}

// findDrivers looks for the compiler that the manifest names, or hipcc: in PATH, then where ROCm
// is. It returns more than one only if the manifest requires a version.
func findDrivers(f *find.Finder, want find.Wanted) (drivers, looked []string) {
	name := cmp.Or(want.Compiler, "hipcc")
	looked = append(looked, name+" in PATH")
	if p := f.Lookup(name); p != "" {
		drivers = append(drivers, p)
	}
	if strings.Contains(name, "/") {
		return drivers, looked
	}
	for _, d := range folders(f) {
		for _, p := range []string{path.Join(d, "bin", name), path.Join(d, "llvm/bin", name)} {
			if drivers != nil && want.Accepts == nil {
				return drivers, looked
			}
			looked = append(looked, p)
			if f.IsProgram(p) && !slices.ContainsFunc(drivers, func(have string) bool { return f.Real(have) == f.Real(p) }) {
				drivers = append(drivers, p)
			}
		}
	}
	return drivers, looked
}

// folders returns the folders that may hold a ROCm: those that variables name, /opt/rocm, then the
// versions beside it, the newest first.
func folders(f *find.Finder) (dirs []string) {
	for _, v := range []string{"ROCM_PATH", "HIP_PATH"} {
		if d := f.Env[v]; d != "" {
			dirs = append(dirs, path.Clean(d))
		}
	}
	return append(append(dirs, "/opt/rocm"), find.NewestFirst(f.Glob("/opt", "rocm-*"))...)
}

// findHeaders returns the folder with HIP's headers for NVIDIA's GPUs, or "" if none has them.
func findHeaders(f *find.Finder) string {
	for _, dir := range append(folders(f), "/usr/local", "/usr") {
		if f.Exists(path.Join(dir, "include/hip/nvidia_detail/nvidia_hip_runtime.h")) {
			return path.Join(dir, "include")
		}
	}
	return ""
}

// ofROCm sets ROCM_PATH to the ROCm of the compiler if the user's ROCM_PATH names another.
func ofROCm(f *find.Finder, env []string, driver string) []string {
	within := func(dir string) bool { return strings.HasPrefix(driver, path.Clean(dir)+"/") }
	if named := f.Env["ROCM_PATH"]; named == "" || within(named) {
		return env
	}
	dirs := folders(f)
	i := slices.IndexFunc(dirs, within)
	if i < 0 {
		return env
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "ROCM_PATH=") || strings.HasPrefix(v, "HIP_PATH=")
	})
	return slices.Sorted(slices.Values(append(env, "ROCM_PATH="+dirs[i])))
}

// steps queries the steps of a command for gfx906, which every clang knows.
func (f *finder) steps(args ...string) clang.Steps {
	argv := append([]string{f.Driver.Path, "-###", "--offload-arch=gfx906", "-fgpu-rdc"}, args...)
	return clang.QuerySteps(f.Finder, append(argv, "-o", toolchain.AskOutput), append(slices.Clone(f.Compiler.Env), queryEnv))
}

// query queries a compile and a link for some GPU, and finds the files that they run. It returns
// why it cannot.
func (f *finder) query() (fault string) {
	k, here := f.Compiler, path.Dir(f.Driver.Path)
	f.parts = map[string]string{"driver": k.Driver.Path}
	// Programs that a hipcc script runs.
	for _, name := range []string{"hipcc.pl", "hipcc.bin", "hipvars.pm", "hipconfig", "hipconfig.pl", "hipconfig.bin"} {
		if p := path.Join(here, name); f.Exists(p) {
			f.parts[name] = p
		}
	}
	compile, link := f.steps("-c", "-x", "hip", clang.QuerySource), f.steps("--hip-link", toolchain.QueryInput)
	if dir := f.ownLLVM(compile, link); dir != "" {
		// hipcc of 5.2 and clang 15 pass COMPILER_PATH to all that they run. No option selects the
		// linker of device code: --ld-path is for the host's.
		if before := f.Finder.Env["COMPILER_PATH"]; before != "" {
			dir += ":" + before
		}
		k.Env = slices.Sorted(slices.Values(append(slices.Clone(k.Env), "COMPILER_PATH="+dir)))
		compile, link = f.steps("-c", "-x", "hip", clang.QuerySource), f.steps("--hip-link", toolchain.QueryInput)
	}
	if len(compile.Steps) == 0 || len(link.Steps) == 0 {
		return fmt.Sprintf("%s -### says what kbuild does not understand: %.300s", k.Driver.Path, compile.Said+link.Said)
	}
	k.Clang.Path = compile.Clang[0]
	if !path.IsAbs(k.Clang.Path) {
		k.Clang.Path = f.Lookup(k.Clang.Path)
	}
	f.parts["clang++"] = k.Clang.Path
	for _, p := range []string{k.Driver.Path, k.Clang.Path} {
		if !strings.HasPrefix(path.Base(p), "hipcc") { // hipcc's scripts are known
			f.Follow(p, f.parts)
		}
	}
	f.Exists(path.Join(path.Dir(k.Clang.Path), "lld")) // if it appeared, clang would run it
	clang.AddSteps(f.Finder, f.parts, slices.Concat(compile.Steps, link.Steps))
	// clang-offload-bundler writes objects with llvm-objcopy. The others are of the new driver.
	k.Programs = clang.AddBeside(f.Finder, k.Clang.Path, f.parts, []string{"llvm-objcopy", linkerWrapper, "llvm-offload-wrapper",
		"llvm-offload-binary", "clang-offload-packager", "clang-offload-bundler", "lld"})
	delete(k.Programs, "llvm-objcopy")
	// clang-offload-packager is the old name.
	if packager := cmp.Or(k.Programs["llvm-offload-binary"], k.Programs["clang-offload-packager"]); packager != "" {
		k.Programs["packager"] = packager
	}
	f.AddLibraries(f.parts, slices.Sorted(maps.Keys(f.parts)))
	f.AddSystem(f.parts)
	rocm := cmp.Or(f.Finder.Env["ROCM_PATH"], "/opt/rocm")
	for _, a := range compile.Clang {
		if d, ok := strings.CutPrefix(a, "--rocm-path="); ok {
			rocm = d
		}
	}
	// By default hipcc uses the ROCm folder above itself, and clang the newest rocm-N.M of /opt.
	for _, dir := range []string{path.Join(rocm, "hsa"), path.Join(path.Dir(here), "hsa"), "/opt"} {
		f.List(dir)
	}
	for _, dir := range []string{rocm, "/usr/local", "/usr"} {
		// Device libraries there take precedence over those in clang's own folder.
		f.List(path.Join(dir, "amdgcn/bitcode"))
		// clang reads these files in each compile.
		for _, name := range []string{"bin/.hipVersion", "share/hip/version"} {
			if p := path.Join(dir, name); f.Exists(p) {
				f.parts[p] = p
			}
		}
	}
	k.Includes = f.includes(compile.Steps)
	k.DeviceLibs = clang.LibsIn(f.Finder, compile.Steps)
	if d := f.Finder.Env["HIP_DEVICE_LIB_PATH"]; d != "" {
		k.Looked = append(k.Looked, d+" (HIP_DEVICE_LIB_PATH)")
	}
	k.Looked = append(k.Looked, path.Join(rocm, "amdgcn/bitcode"), path.Join(rocm, "lib/x86_64-linux-gnu/amdgcn/bitcode"))
	k.LibsFault = compile.Error
	k.CompilesNew, k.LinksNew = NewDriver(compile), NewDriver(link)
	f.link = link
	return ""
}

// ownLLVM returns the folder of clang's own LLVM if that has an lld but a link would run another.
// It returns "" otherwise.
func (f *finder) ownLLVM(compile, link clang.Steps) string {
	own := ""
	for _, argv := range compile.Steps {
		if len(argv) > 1 && argv[1] == "-cc1" {
			own = f.RealDir(argv[0])
		}
	}
	for _, argv := range link.Steps {
		if path.Base(argv[0]) == "lld" && own != "" && f.RealDir(argv[0]) != own && f.Exists(path.Join(own, "lld")) {
			return own
		}
	}
	return ""
}

// includes returns the folders where the steps of a compile search for hip/hip_runtime.h, except
// /usr/include, which every compiler searches.
func (f *finder) includes(steps [][]string) (dirs []string) {
	for _, argv := range steps {
		for i, a := range argv[:len(argv)-1] {
			if a != "-isystem" && a != "-idirafter" && a != "-internal-isystem" {
				continue
			}
			dir := path.Clean(argv[i+1])
			if dir != "/usr/include" && !slices.Contains(dirs, dir) && f.Exists(path.Join(dir, "hip/hip_runtime.h")) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// identify finds the architectures that the compiler supports, and its fingerprint.
func (f *finder) identify(version string) (err error) {
	k := f.Compiler
	major, _, _ := strings.Cut(version, ".")
	k.Major, _ = strconv.Atoi(major)
	for _, c := range clang.KnownTo(f.Finder, k.Clang.Path, "amdgcn-amd-amdhsa", gencode.GFX) {
		k.Archs = append(k.Archs, c.Name)
	}
	k.LibsFault, _ = OldLibs(k.LibsFault, k.Major)
	text, _ := f.Answer(k.Clang.Path, "--version")
	f.AroundClang(k.Clang.Path)
	text = f.AddConfiguration(text, f.parts)
	gcc, crtbegin := f.GCCOf(k.Clang.Path)
	f.parts["crtbegin.o"] = crtbegin
	k.Driver.ID, err = f.Identify(f.parts, text, gcc)
	k.Clang.ID, k.Driver.Version, k.Clang.Version = k.Driver.ID, version, version
	return err
}

// trialSource has a kernel that calls the device libraries. It includes nothing, since HIP's
// headers may not be installed.
const trialSource = `extern "C" __attribute__((device)) float __ocml_sin_f32(float);
extern "C" __attribute__((global)) void kbuild_trial(float *p) { *p = __ocml_sin_f32(*p); }
`

// try compiles and links two lines for gfx906, in the steps of a build. A failure about bitcode of
// another LLVM is a fault of the installation, which a build would meet after minutes. Other
// failures are only reported by doctor.
func (f *finder) try() {
	k := f.Compiler
	if len(k.DeviceLibs) == 0 {
		return // another check reports missing device libraries
	}
	arch := gencode.Code{Kind: gencode.GFX, Name: "gfx906"}
	trial := find.Command{Env: k.Env, Files: map[string]string{"trial.hip": trialSource},
		Argv: []string{k.Driver.Path, "--offload-arch=" + arch.String(), "-fgpu-rdc", "--cuda-device-only",
			"--no-gpu-bundle-output", "-c", "-x", "hip", "trial.hip", "-o", "trial.bc"}}
	linker := ""
	// Of unknown steps, or the new driver, the link runs as one command.
	if link, err := LinkOf(f.link, []gencode.Code{arch}); err == nil && len(link.Device) == 1 {
		linker = link.Device[0].Program
		bundle, _ := link.Bundle.Pack(map[string]string{arch.String(): "trial.co"}, "trial.hipfb")
		trial.Then = [][]string{link.Device[0].Device([]string{"trial.bc"}, "trial.co"), bundle}
	}
	r := f.Run(trial)
	k.Trial = r.Complaint()
	switch misfit := find.OtherLLVM(k.Trial); {
	case k.Trial == "":
	case r.Ran == 1 && misfit:
		k.CompileFault = fmt.Sprintf("clang %s cannot read the device libraries in %s: %s. Install those of this clang (on Debian and Ubuntu: apt install %s), or set HIP_DEVICE_LIB_PATH.",
			k.Clang.Version, path.Dir(k.DeviceLibs[0]), k.Trial, LibsPackage(k.Major))
	case r.Ran > 1 && (misfit || !path.IsAbs(linker)):
		k.LinkFault = fmt.Sprintf("clang %s and %s do not fit together: %s. Install the lld of this clang (on Debian and Ubuntu: apt install lld-%d).",
			k.Clang.Version, linker, k.Trial, k.Major)
	}
}

// Doctor reports the tools that compile HIP targets.
func (k *Toolchain) Doctor(*find.Finder, find.Wanted) (list []find.Finding) {
	add := func(status, what, text string) {
		list = append(list, find.Finding{Status: status, What: what, Text: text})
	}
	if k.Compiler == nil {
		add(find.Fails, "HIP compiler", k.Missing)
		return list
	}
	add(find.OK, "HIP compiler", fmt.Sprintf("%s, clang %s at %s", k.Driver.Path, k.Clang.Version, k.Clang.Path))
	if len(k.Archs) > 0 {
		add(find.OK, "AMD code", strings.Join(k.Archs, ", "))
	}
	switch {
	case k.LibsFault != "":
		add(find.Fails, "device libraries", k.LibsFault)
		return list
	case len(k.DeviceLibs) == 0:
		add(find.Fails, "device libraries", "were not found; looked in "+strings.Join(k.Looked, ", ")+". Install them (on Debian and Ubuntu: apt install "+LibsPackage(k.Major)+"), or set HIP_DEVICE_LIB_PATH or ROCM_PATH.")
		return list
	}
	add(find.OK, "device libraries", path.Dir(k.DeviceLibs[0]))
	if fault := cmp.Or(k.CompileFault, k.LinkFault); fault != "" {
		add(find.Fails, "tools of HIP", fault)
	} else if k.Trial != "" {
		add(find.Warns, "tools of HIP", "a kernel of two lines does not compile and link for gfx906: "+k.Trial)
	} else {
		add(find.OK, "tools of HIP", "clang, lld, bundler and device libraries fit together")
	}
	for _, v := range k.Env {
		if dir, ok := strings.CutPrefix(v, "COMPILER_PATH="); ok {
			add(find.OK, "", "clang would find an lld of another LLVM; kbuild has it use that of "+dir)
		}
	}
	return list
}
