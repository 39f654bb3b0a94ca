package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/compiler/hip"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// Bitcode is for the tools of its own LLVM. clang looks for lld first in the folder by whose name
// it was called: where Debian's unversioned lld (14) stands beside clang++-15 in /usr/bin, clang 15
// takes that one, and it ends with "Opaque pointers are only supported in -opaque-pointers mode
// (Producer: 'LLVM15.0.6' Reader: 'LLVM 14.0.6')", in hipcc as in kbuild.

// ownLLVM is the folder of clang's own LLVM if it has an lld that a link does not take; "" if all
// is well or there is none.
func (w *world) ownLLVM(compile, link clang.Steps) string {
	own := ""
	for _, argv := range compile.Steps {
		if len(argv) > 1 && argv[1] == "-cc1" {
			own = realDir(argv[0])
		}
	}
	for _, argv := range link.Steps {
		if filepath.Base(argv[0]) == "lld" && own != "" && realDir(argv[0]) != own && w.there(filepath.Join(own, "lld")) {
			return own
		}
	}
	return ""
}

// realDir is the folder of a file behind its links; "" if there is no file.
func realDir(name string) string {
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !filepath.IsAbs(real) {
		return ""
	}
	return filepath.Dir(real)
}

// withCompilerPath has clang look for programs in dir first. hipcc of 5.2 and clang 15 hand it to
// all that they run, and there is no option for the linker of device code: --ld-path is for the
// host's.
func withCompilerPath(env []string, dir, before string) []string {
	if before != "" {
		dir += string(filepath.ListSeparator) + before
	}
	env = append(slices.Clone(env), "COMPILER_PATH="+dir)
	slices.Sort(env)
	return env
}

// trialSource has a kernel that calls into the device libraries. It includes nothing: HIP's headers
// need not be there.
const trialSource = `extern "C" __attribute__((device)) float __ocml_sin_f32(float);
extern "C" __attribute__((global)) void kbuild_trial(float *p) { *p = __ocml_sin_f32(*p); }
`

// tryHIP compiles and links two lines, in the steps of a build, for gfx906. What fails for bitcode
// of another LLVM is a fault of the installation, which a build would meet after minutes; of other
// failures only doctor speaks.
func (w *world) tryHIP(k *plan.HIP) {
	if len(k.DeviceLibs) == 0 {
		return // said elsewhere
	}
	dir := w.folderWith("trial.hip", trialSource)
	defer os.RemoveAll(dir)
	if w.trouble {
		return
	}
	arch := gencode.Code{Kind: gencode.GFX, Name: "gfx906"}
	said := w.try(dir, k.Env, []string{k.Driver.Path, "--offload-arch=" + arch.String(), "-fgpu-rdc", "--cuda-device-only",
		"--no-gpu-bundle-output", "-c", "-x", "hip", "trial.hip", "-o", "trial.bc"})
	if said != "" {
		w.hipTrial = said
		if otherLLVM(said) {
			k.CompileFault = fmt.Sprintf("clang %s cannot read the device libraries in %s: %s. Install those of this clang (on Debian and Ubuntu: apt install %s), or set HIP_DEVICE_LIB_PATH.",
				k.Clang.Version, filepath.Dir(k.DeviceLibs[0]), said, hip.LibsPackage(k.Major))
		}
		return
	}
	link, err := hip.LinkOf(w.hipLink, []gencode.Code{arch})
	if err != nil || len(link.Device) != 1 {
		return // unknown, or of the new driver: linked as one command
	}
	lld := link.Device[0]
	bundle, _ := link.Bundle.Pack(map[string]string{arch.String(): "trial.co"}, "trial.hipfb")
	for _, argv := range [][]string{lld.Device([]string{"trial.bc"}, "trial.co"), bundle} {
		if said = w.try(dir, k.Env, argv); said != "" {
			w.hipTrial = said
			if otherLLVM(said) || !filepath.IsAbs(lld.Program) {
				k.LinkFault = fmt.Sprintf("clang %s and %s do not fit together: %s. Install the lld of this clang (on Debian and Ubuntu: apt install lld-%d).",
					k.Clang.Version, lld.Program, said, k.Major)
			}
			return
		}
	}
}

// try runs a command in dir, and gives what it complained of; "" if it ended well, or if it could
// not be tried.
func (w *world) try(dir string, env, argv []string) string {
	cmd := w.command(argv)
	cmd.Dir, cmd.Env = dir, append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	w.note(err)
	switch {
	case err == nil, isTrouble(err):
		return ""
	case len(out) == 0:
		return err.Error()
	}
	return strings.TrimSpace(complaint(string(out)))
}

// otherLLVM reports a message about bitcode of another LLVM: "(Producer: 'LLVM15.0.6' Reader: 'LLVM
// 14.0.6')".
func otherLLVM(said string) bool {
	return strings.Contains(said, "Producer: ") && strings.Contains(said, "Reader: ")
}
