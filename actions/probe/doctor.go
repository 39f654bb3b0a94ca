package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Doctor reports what a build would find, with a fix for each fault. It returns whether everything
// that a build needs works. It probes again, whatever a memo holds. misparsed, which may be nil,
// returns the reasons why compilers run as one command in this build tree.
func Doctor(ctx context.Context, tell func(Finding), r Request, cacheDir string, misparsed func(plan.Facts) []string) bool {
	if err := checkTemp(); err != nil {
		tell(Finding{Fails, "temporary files", err.Error()})
		return false
	}
	w := newHostEnv(ctx, r)
	f := w.collect()
	if err := ctx.Err(); err != nil {
		tell(Finding{Fails, "", err.Error()})
		return false
	}
	d := &report{tell: tell, good: true}
	if f.CUDA != nil {
		d.toolkit(w, f.CUDA)
	} else if r.NeedCUDA {
		d.fail("CUDA toolkit", f.CUDAError)
	}
	if r.NeedAMD {
		d.hip(w, f)
	}
	d.check("C++ compiler", f.CXX.Error, described(f.CXX))
	d.check("C compiler", f.CC.Error, described(f.CC))
	d.check("archiver", f.AR.Error, described(f.AR))
	if lto := f.HostLTO; lto.Error != "" {
		d.warn("host_lto", lto.Error)
	} else if lto.AR.Path != "" {
		d.ok("host_lto", described(lto.AR))
	}
	if r.NeedNative {
		f.NativeGPU = gpus(ctx, r.Env)
	}
	if len(f.NativeGPU) == 0 {
		d.warn("GPU", "none here; that is fine for building, code = [\"native\"] needs one")
	} else {
		d.ok("GPU", codes(f.NativeGPU))
	}
	if misparsed != nil {
		for _, why := range misparsed(f) {
			d.warn("misparsed", why)
		}
	}
	d.check("cache folder", unwritable(cacheDir), cacheDir)
	return d.good
}

// toolkit reports whether the toolkit that a build would use is complete, and which others are
// installed.
func (d *report) toolkit(w *hostEnv, k *cuda.Toolkit) {
	d.ok("CUDA toolkit", fmt.Sprintf("%s at %s", k.Build, k.NVCC.Path))
	if k.Clang != nil {
		d.ok("CUDA compiler", described(k.Clang.Driver)+" with --cuda-path="+k.Clang.CUDAPath)
	}
	for _, other := range w.others(k.NVCC.Path) {
		d.ok("", "not used: "+other)
	}
	if len(k.Archs) == 0 {
		d.fail("GPU code", k.NVCC.Path+" --list-gpu-code names none; install the toolkit anew.")
	} else {
		d.ok("GPU code", codes(k.Archs))
	}
	good := true
	for _, part := range append(append([]string(nil), nvcc.Programs...), "link.stub", "libcudadevrt.a", "libcudart_static.a") {
		if w.parts[part] == "" && k.LibFaults[part] == "" {
			good = false
			d.fail(part, "is missing from the toolkit; install it whole (on Debian and Ubuntu: apt install --reinstall nvidia-cuda-toolkit nvidia-cuda-dev).")
		}
	}
	for _, lib := range nvcc.Libraries {
		switch fault := k.LibFaults[lib]; {
		case fault == "":
		case lib == "libcudart.so":
			d.warn(lib, `for cudart = "shared": `+fault)
		default:
			good = false
			d.fail(lib, fault)
		}
	}
	if k.Mixed != "" {
		d.warn("versions", k.Mixed)
	}
	if good {
		d.ok("parts of the toolkit", strings.Join(nvcc.Programs, ", "))
	}
	if why := w.unsplit(k); why != "" && k.Clang == nil {
		d.warn("taken apart", "no: "+why)
	} else if k.Clang == nil {
		d.ok("taken apart", "yes")
	}
	if w.fits(k.HostCXX) {
		d.ok("host compiler of nvcc", described(k.HostCXX))
	} else {
		d.warn("host compiler of nvcc", fmt.Sprintf("%s is newer than g++ %d, the last that this toolkit accepts; name g++-%d as host_compiler of the toolchain block.", described(k.HostCXX), w.limit, w.limit))
	}
	d.lto(k)
	if find("cuobjdump", filepath.Join(k.Root, "bin")+string(filepath.ListSeparator)+w.env("PATH")) == "" {
		d.warn("cuobjdump", "was not found; builds do not need it, it disassembles device code.")
	}
}

// lto reports whether device code can be linked with LTO, and whether floating-point options are
// kept.
func (d *report) lto(k *cuda.Toolkit) {
	if k.LibNVVM != "" {
		d.ok("LTO", "nvlink is handed "+k.LibNVVM)
	} else {
		d.check("LTO", k.LTOFault, "nvlink finds libnvvm")
	}
	switch k.LTOFloats {
	case cuda.FloatsTold:
		d.ok("LTO arithmetic", "nvlink forgets -ftz, -prec-div and -fmad; kbuild tells it (lto_floats)")
	case cuda.FloatsLost:
		d.warn("LTO arithmetic", `nvlink forgets -ftz, -prec-div and -fmad, and cannot be told: use mode = "rdc" with them.`)
	case cuda.FloatsUntried:
		d.warn("LTO arithmetic", "kbuild could not try whether nvlink remembers -ftz, -prec-div and -fmad (lto_floats).")
	}
}

// unsplit returns why nvcc runs as one command for plain code, or "" if its steps can be split. It
// queries nvcc as a build does.
func (w *hostEnv) unsplit(k *cuda.Toolkit) string {
	if missing := nvcc.Missing(k.Programs); missing != "" {
		return missing
	}
	if len(k.Archs) == 0 {
		return "it compiles for no architecture"
	}
	cc := nvcc.Driver{Path: k.NVCC.Path, HostCXX: k.HostCXX.Path}
	compile := cc.Compile(toolchain.Compile{Source: "a.cu", Output: "a.o", Depfile: "a.d", Mode: "whole", Codes: k.Archs[:1]}, toolchain.Options{})
	link := cc.DeviceLink(nvcc.DeviceLink{Inputs: []string{toolchain.QueryInput}, Output: "a.o", Codes: k.Archs[:1]}, toolchain.Options{})
	steps := &Steps{drivers: map[string]driver{"nvcc": {k.NVCC.Path, os.Environ()}}}
	answer := func(argv []string) (string, error) {
		a, _, _ := steps.ask(w.ctx, toolchain.Question{Tool: "nvcc", Args: nvcc.Query(argv, "a.cu", "a.o", "a.d")})
		if a.Error != "" {
			return "", fmt.Errorf("nvcc --dryrun: %s", a.Error)
		}
		return a.Text, nil
	}
	text, err := answer(compile)
	if err == nil {
		_, err = nvcc.LearnCompile(text)
	}
	if err == nil {
		if text, err = answer(link); err == nil {
			_, err = nvcc.LearnLink(text)
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// hip reports the tools that compile HIP targets.
func (d *report) hip(w *hostEnv, f plan.Facts) {
	k := f.HIP
	if k == nil {
		d.fail("HIP compiler", f.HIPError)
		return
	}
	d.ok("HIP compiler", fmt.Sprintf("%s, clang %s at %s", k.Driver.Path, k.Clang.Version, k.Clang.Path))
	if len(k.Archs) > 0 {
		d.ok("AMD code", strings.Join(k.Archs, ", "))
	}
	switch {
	case k.LibsFault != "":
		d.fail("device libraries", k.LibsFault)
		return
	case len(k.DeviceLibs) == 0:
		d.fail("device libraries", "were not found; looked in "+strings.Join(k.Looked, ", ")+". Install them (on Debian and Ubuntu: apt install "+hip.LibsPackage(k.Major)+"), or set HIP_DEVICE_LIB_PATH or ROCM_PATH.")
		return
	}
	d.ok("device libraries", filepath.Dir(k.DeviceLibs[0]))
	switch {
	case k.CompileFault != "":
		d.fail("tools of HIP", k.CompileFault)
	case k.LinkFault != "":
		d.fail("tools of HIP", k.LinkFault)
	case w.hipTrial != "":
		d.warn("tools of HIP", "a kernel of two lines does not compile and link for gfx906: "+w.hipTrial)
	default:
		d.ok("tools of HIP", "clang, lld, bundler and device libraries fit together")
	}
	for _, v := range k.Env {
		if dir, ok := strings.CutPrefix(v, "COMPILER_PATH="); ok {
			d.ok("", "clang would find an lld of another LLVM; kbuild has it use that of "+dir)
		}
	}
}

// others returns toolkits that a build would not use, each once even if it has several names.
func (w *hostEnv) others(used string) []string {
	seen := map[string]bool{}
	first := func(p string) bool {
		real, err := filepath.EvalSymlinks(p)
		if err != nil || !isProgram(p) || seen[real] {
			return false
		}
		seen[real] = true
		return true
	}
	first(used)
	var dirs, found []string
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if dir := w.env(v); dir != "" {
			dirs = append(dirs, filepath.Join(dir, "bin"))
		}
	}
	dirs = append(dirs, filepath.SplitList(w.env("PATH"))...)
	local, _ := filepath.Glob("/usr/local/cuda*/bin")
	for _, dir := range append(dirs, local...) {
		if p := filepath.Join(dir, "nvcc"); filepath.IsAbs(dir) && first(p) {
			found = append(found, p)
		}
	}
	return found
}

func described(t toolchain.Tool) string {
	if t.Version == "" {
		return t.Path
	}
	return fmt.Sprintf("%s (%s)", t.Path, t.Version)
}

// codes formats a sorted list; a long one by its first and last element.
func codes(list []gencode.Code) string {
	if len(list) > 3 {
		return fmt.Sprintf("%s to %s", list[0], list[len(list)-1])
	}
	return strings.Trim(fmt.Sprint(list), "[]")
}

// Finding is one line of the doctor's report.
type Finding struct {
	Status string // OK, Warns or Fails
	What   string // "" continues the previous finding
	Text   string // what was found, or how to fix it
}

// Values of Finding.Status.
const (
	OK    = "ok"
	Warns = "warning"
	Fails = "fail"
)

func (f Finding) String() string { return fmt.Sprintf("%-7s %-22s %s", f.Status, f.What, f.Text) }

type report struct {
	tell func(Finding)
	good bool
}

func (d *report) ok(what, found string)   { d.tell(Finding{OK, what, found}) }
func (d *report) warn(what, found string) { d.tell(Finding{Warns, what, found}) }
func (d *report) fail(what, fix string) {
	d.good = false
	d.tell(Finding{Fails, what, fix})
}

func (d *report) check(what, fault, found string) {
	if fault != "" {
		d.fail(what, fault)
		return
	}
	d.ok(what, found)
}

// unwritable returns why files cannot be created in a folder.
func unwritable(dir string) string {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Sprintf("%v; set KBUILD_CACHE_DIR to a folder you can write", err)
	}
	f, err := os.CreateTemp(dir, "doctor-*")
	if err != nil {
		return fmt.Sprintf("%s; set KBUILD_CACHE_DIR to a folder you can write", strings.TrimSpace(err.Error()))
	}
	f.Close()
	os.Remove(f.Name())
	return ""
}
