package probe

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
)

// hipccVerbose makes hipcc print the command that it runs.
const hipccVerbose = "HIPCC_VERBOSE=1"

// hip finds and identifies the HIP compiler. A dry run (-###) of the compiler shows what it runs
// and reads; nothing is guessed from a layout.
func (w *hostEnv) hip() (*hip.Compiler, string) {
	drivers, looked := w.findHIP()
	if drivers == nil {
		return nil, "Looked for " + strings.Join(looked, ", ") + ". Install ROCm's HIP compiler (" + installHIP(osRelease()) + "), or set ROCM_PATH."
	}
	var refused []string
	for _, driver := range drivers {
		k := &hip.Compiler{Driver: toolchain.Tool{Path: driver}, Env: w.ofROCm(w.hipEnv(), driver)}
		parts, msg := w.askHIP(k)
		if msg != "" {
			return nil, msg
		}
		version, err := w.answer(k.Clang.Path, "-dumpversion")
		if err != nil {
			return nil, fmt.Sprintf("%s does not work: %v", k.Clang.Path, err)
		}
		// Another driver may have a version that the manifest accepts.
		if w.req.HIPAccepts != nil && !w.req.HIPAccepts(version) {
			refused = append(refused, fmt.Sprintf("%s runs clang %s", driver, version))
			continue
		}
		return w.identifyHIP(k, parts, version)
	}
	return nil, fmt.Sprintf("%s; the manifest wants %s. Set ROCM_PATH or the compiler of the toolchain block.", strings.Join(refused, ", "), w.req.HIPVersion)
}

// identifyHIP finds the architectures that a HIP compiler supports, and its fingerprint.
func (w *hostEnv) identifyHIP(k *hip.Compiler, parts map[string]string, version string) (*hip.Compiler, string) {
	major, _, _ := strings.Cut(version, ".")
	k.Major, _ = strconv.Atoi(major)
	for _, c := range w.knownTo(k.Clang.Path, "amdgcn-amd-amdhsa", gencode.GFX) {
		k.Archs = append(k.Archs, c.Name)
	}
	k.LibsFault, _ = hip.OldLibs(k.LibsFault, k.Major)
	text, _ := w.answer(k.Clang.Path, "--version")
	w.aroundClang(k.Clang.Path)
	w.configuration(text, parts)
	gcc, crtbegin := w.gccOf(k.Clang.Path)
	parts["crtbegin.o"] = crtbegin
	// The content of configuration files is part of the fingerprint, and not their paths.
	id, err := w.fingerprint(parts, configurationRE().ReplaceAllString(text, ""), gcc)
	if err != nil {
		return nil, err.Error()
	}
	k.Driver.ID, k.Driver.Version = id, version
	k.Clang.ID, k.Clang.Version = id, version
	w.tryHIP(k)
	return k, ""
}

// knownTo returns the GPUs of a target that a clang knows, or nil if clang cannot list them.
func (w *hostEnv) knownTo(clang, target string, kind gencode.Kind) []gencode.Code {
	text, err := w.output(clang, "--target="+target, "-nogpulib", "-print-supported-cpus")
	if err != nil {
		return nil
	}
	var archs []gencode.Code
	for _, word := range strings.Fields(text) {
		if c, err := gencode.Parse(word); err == nil && c.Kind == kind {
			archs = append(archs, c)
		}
	}
	return archs
}

// findHIP looks for the compiler that the manifest names, or hipcc: in PATH, then where ROCm is. It
// returns more than one only if the manifest requires a version.
func (w *hostEnv) findHIP() (drivers, looked []string) {
	name := cmp.Or(w.req.HIPCompiler, "hipcc")
	looked = append(looked, name+" in PATH")
	if p := w.lookup(name, w.env("PATH")); p != "" {
		drivers = append(drivers, p)
	}
	if strings.Contains(name, "/") || drivers != nil && w.req.HIPAccepts == nil {
		return drivers, looked
	}
	for _, d := range w.rocmFolders() {
		for _, below := range []string{"bin", "llvm/bin"} {
			p := filepath.Join(d, below, name)
			looked = append(looked, p)
			switch {
			case !isProgram(p):
				w.absent[p] = true
			case !slices.ContainsFunc(drivers, func(have string) bool { return sameFile(have, p) }):
				drivers = append(drivers, p)
				if w.req.HIPAccepts == nil {
					return drivers, looked
				}
			}
		}
	}
	return drivers, looked
}

// hipEnv returns the variables that commands of the HIP compiler get, and that enter their keys.
// HIP_PLATFORM is always set: hipcc compiles for NVIDIA wherever it finds an nvcc.
func (w *hostEnv) hipEnv() []string {
	env := []string{"HIP_PLATFORM=amd"}
	for _, name := range run.Names(run.AMD) {
		if v := w.env(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	slices.Sort(env)
	return env
}

// askHIP queries a compile and a link for some GPU, and returns the files that they run, by role.
func (w *hostEnv) askHIP(k *hip.Compiler) (parts map[string]string, fault string) {
	parts = map[string]string{"driver": k.Driver.Path}
	here := filepath.Dir(k.Driver.Path)
	// Programs that a hipcc script runs.
	for _, name := range []string{"hipcc.pl", "hipcc.bin", "hipvars.pm", "hipconfig", "hipconfig.pl", "hipconfig.bin"} {
		if p := filepath.Join(here, name); w.there(p) {
			parts[name] = p
		}
	}
	compile, link := w.compileAndLink(k)
	if dir := w.ownLLVM(compile, link); dir != "" {
		k.Env = withCompilerPath(k.Env, dir, w.env("COMPILER_PATH"))
		compile, link = w.compileAndLink(k)
	}
	if len(compile.Steps) == 0 || len(link.Steps) == 0 {
		return nil, fmt.Sprintf("%s -### says what kbuild does not understand: %.300s", k.Driver.Path, compile.Said+link.Said)
	}
	k.Clang.Path = compile.Clang[0]
	if !filepath.IsAbs(k.Clang.Path) {
		k.Clang.Path = w.lookup(k.Clang.Path, w.env("PATH"))
	}
	parts["clang++"] = k.Clang.Path
	for _, p := range []string{k.Driver.Path, k.Clang.Path} {
		if !strings.HasPrefix(filepath.Base(p), "hipcc") { // hipcc's scripts are known
			w.follow(p, parts, map[string]bool{})
		}
	}
	w.there(filepath.Join(filepath.Dir(k.Clang.Path), "lld")) // if it appeared, clang would run it
	for _, argv := range slices.Concat(compile.Steps, link.Steps) {
		if role := filepath.Base(argv[0]); parts[role] == "" && w.there(argv[0]) {
			parts[role] = argv[0]
		}
	}
	// clang-offload-bundler writes objects with llvm-objcopy.
	if objcopy := filepath.Join(realDir(k.Clang.Path), "llvm-objcopy"); w.there(objcopy) {
		parts["llvm-objcopy"] = objcopy
	}
	k.Programs = w.offloadPrograms(k.Clang.Path, parts)
	w.addLibraries(parts, slices.Sorted(maps.Keys(parts)))
	w.addSystem(parts)
	// By default hipcc uses the ROCm folder above itself.
	for _, dir := range []string{w.rocm(compile.Clang), filepath.Dir(here)} {
		w.watch(filepath.Join(dir, "hsa"))
	}
	// clang uses the newest rocm-N.M of this folder.
	w.reads("/opt")
	for _, dir := range []string{w.rocm(compile.Clang), "/usr/local", "/usr"} {
		// Device libraries there take precedence over those in clang's own folder.
		w.watch(filepath.Join(dir, "amdgcn", "bitcode"))
		// clang reads these files in each compile.
		for _, name := range []string{"bin/.hipVersion", "share/hip/version"} {
			if p := filepath.Join(dir, name); w.there(p) {
				parts[p] = p
			}
		}
	}
	k.Includes = hipIncludes(compile.Steps)
	k.DeviceLibs = w.deviceLibs(compile.Steps)
	k.Looked = w.lookedForLibs(compile.Clang)
	k.LibsFault = compile.Error
	k.CompilesNew, k.LinksNew = hip.NewDriver(compile), hip.NewDriver(link)
	w.hipLink = link
	return parts, ""
}

// offloadPrograms finds the programs of the new offload driver beside a clang. All are parts of
// that clang.
func (w *hostEnv) offloadPrograms(clang string, parts map[string]string) map[string]string {
	found := map[string]string{}
	for _, name := range []string{"clang-linker-wrapper", "llvm-offload-wrapper", "llvm-offload-binary", "clang-offload-packager", "clang-offload-bundler", "lld"} {
		file := filepath.Join(realDir(clang), name)
		if !w.there(file) {
			continue
		}
		found[name] = file
		if parts[name] == "" {
			parts[name] = file
		}
	}
	// clang-offload-packager is the old name.
	if packager := cmp.Or(found["llvm-offload-binary"], found["clang-offload-packager"]); packager != "" {
		found["packager"] = packager
	}
	return found
}

// compileAndLink queries the steps of a compile and of a link of its output.
func (w *hostEnv) compileAndLink(k *hip.Compiler) (compile, link clang.Steps) {
	return w.hipSteps(k, "-c", "-x", "hip", clang.QuerySource), w.hipSteps(k, "--hip-link", toolchain.QueryInput)
}

// hipSteps queries the steps of a command for gfx906, which every clang knows.
func (w *hostEnv) hipSteps(k *hip.Compiler, args ...string) clang.Steps {
	argv := append([]string{k.Driver.Path, "-###", "--offload-arch=gfx906", "-fgpu-rdc"}, args...)
	return w.steps(append(argv, "-o", toolchain.AskOutput), slices.Concat(k.Env, []string{hipccVerbose}))
}

// steps queries hipcc or clang. A failed query is not an error here: its output still has steps,
// and the planner queries again.
func (w *hostEnv) steps(argv, env []string) clang.Steps {
	dir, err := queryFolder()
	if w.note(err); err != nil {
		return clang.Steps{Said: err.Error()}
	}
	defer os.RemoveAll(dir)
	cmd := w.command(argv)
	// clang 15 leaves a folder in TMPDIR.
	cmd.Dir, cmd.Env = dir, append(append(cmd.Env, env...), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	w.note(err)
	return clang.ReadSteps(string(out), argv)
}

// hipIncludes returns the folders where the steps of a compile search for hip/hip_runtime.h, except
// /usr/include, which every compiler searches.
func hipIncludes(steps [][]string) []string {
	var dirs []string
	for _, argv := range steps {
		for i, a := range argv[:len(argv)-1] {
			if a != "-isystem" && a != "-idirafter" && a != "-internal-isystem" {
				continue
			}
			dir := filepath.Clean(argv[i+1])
			if dir != "/usr/include" && !slices.Contains(dirs, dir) && exists(filepath.Join(dir, "hip", "hip_runtime.h")) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// deviceLibs returns all device libraries in the folders that a compile reads some from.
func (w *hostEnv) deviceLibs(steps [][]string) []string {
	var libs []string
	for _, argv := range steps {
		for i, a := range argv[:len(argv)-1] {
			if a != "-mlink-builtin-bitcode" {
				continue
			}
			dir := filepath.Dir(argv[i+1])
			w.reads(dir) // clang selects libraries there by name
			found, _ := filepath.Glob(filepath.Join(dir, "*.bc"))
			for _, f := range found {
				if !slices.Contains(libs, f) {
					libs = append(libs, f)
				}
			}
		}
	}
	return libs
}

// rocm returns the ROCm folder that a clang command uses.
func (w *hostEnv) rocm(clang []string) string {
	dir := cmp.Or(w.env("ROCM_PATH"), "/opt/rocm")
	for _, a := range clang {
		if d, ok := strings.CutPrefix(a, "--rocm-path="); ok {
			dir = d
		}
	}
	return dir
}

// lookedForLibs returns where clang looks for device libraries, for the message that it has none.
func (w *hostEnv) lookedForLibs(clang []string) []string {
	var dirs []string
	for _, a := range clang {
		for _, option := range []string{"--hip-device-lib-path=", "--rocm-device-lib-path="} {
			if d, ok := strings.CutPrefix(a, option); ok {
				dirs = append(dirs, d+" ("+strings.TrimSuffix(option, "=")+")")
			}
		}
	}
	if d := w.env("HIP_DEVICE_LIB_PATH"); d != "" {
		dirs = append(dirs, d+" (HIP_DEVICE_LIB_PATH)")
	}
	rocm := w.rocm(clang)
	return append(dirs, filepath.Join(rocm, "amdgcn", "bitcode"), filepath.Join(rocm, "lib", "x86_64-linux-gnu", "amdgcn", "bitcode"))
}
