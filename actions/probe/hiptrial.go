package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
)

// Only the tools of the same LLVM read its bitcode. clang looks for lld first in the folder of the
// name that it was called by. Where Debian's unversioned lld (14) is beside clang++-15 in /usr/bin,
// clang 15 runs that one. It fails with "Opaque pointers are only supported in -opaque-pointers
// mode (Producer: 'LLVM15.0.6' Reader: 'LLVM 14.0.6')", in hipcc as in kbuild.

// ownLLVM returns the folder of clang's own LLVM if that has an lld but a link would run another.
// It returns "" otherwise.
func (w *hostEnv) ownLLVM(compile, link clang.Steps) string {
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

// realDir returns the folder of a file after its links are resolved, or "" if the file does not
// exist.
func realDir(name string) string {
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !filepath.IsAbs(real) {
		return ""
	}
	return filepath.Dir(real)
}

// withCompilerPath makes clang look for programs in dir first. hipcc of 5.2 and clang 15 pass
// COMPILER_PATH to all that they run. No option selects the linker of device code: --ld-path is for
// the host's.
func withCompilerPath(env []string, dir, before string) []string {
	if before != "" {
		dir += string(filepath.ListSeparator) + before
	}
	env = append(slices.Clone(env), "COMPILER_PATH="+dir)
	slices.Sort(env)
	return env
}

// trialSource has a kernel that calls the device libraries. It includes nothing, since HIP's
// headers may not be installed.
const trialSource = `extern "C" __attribute__((device)) float __ocml_sin_f32(float);
extern "C" __attribute__((global)) void kbuild_trial(float *p) { *p = __ocml_sin_f32(*p); }
`

// tryHIP compiles and links two lines for gfx906, in the steps of a build. A failure about bitcode
// of another LLVM is a fault of the installation, which a build would meet after minutes. Other
// failures are only reported by doctor.
func (w *hostEnv) tryHIP(k *hip.Compiler) {
	if len(k.DeviceLibs) == 0 {
		return // another check reports missing device libraries
	}
	dir := w.folderWith("trial.hip", trialSource)
	defer os.RemoveAll(dir)
	if w.trouble {
		return
	}
	arch := gencode.Code{Kind: gencode.GFX, Name: "gfx906"}
	printed := w.try(dir, k.Env, []string{k.Driver.Path, "--offload-arch=" + arch.String(), "-fgpu-rdc", "--cuda-device-only",
		"--no-gpu-bundle-output", "-c", "-x", "hip", "trial.hip", "-o", "trial.bc"})
	if printed != "" {
		w.hipTrial = printed
		if otherLLVM(printed) {
			k.CompileFault = fmt.Sprintf("clang %s cannot read the device libraries in %s: %s. Install those of this clang (on Debian and Ubuntu: apt install %s), or set HIP_DEVICE_LIB_PATH.",
				k.Clang.Version, filepath.Dir(k.DeviceLibs[0]), printed, hip.LibsPackage(k.Major))
		}
		return
	}
	link, err := hip.LinkOf(w.hipLink, []gencode.Code{arch})
	if err != nil || len(link.Device) != 1 {
		return // unknown steps, or the new driver: the link runs as one command
	}
	lld := link.Device[0]
	bundle, _ := link.Bundle.Pack(map[string]string{arch.String(): "trial.co"}, "trial.hipfb")
	for _, argv := range [][]string{lld.Device([]string{"trial.bc"}, "trial.co"), bundle} {
		if printed = w.try(dir, k.Env, argv); printed != "" {
			w.hipTrial = printed
			if otherLLVM(printed) || !filepath.IsAbs(lld.Program) {
				k.LinkFault = fmt.Sprintf("clang %s and %s do not fit together: %s. Install the lld of this clang (on Debian and Ubuntu: apt install lld-%d).",
					k.Clang.Version, lld.Program, printed, k.Major)
			}
			return
		}
	}
}

// try runs a command in dir and returns its error message. It returns "" if the command succeeded
// or could not be run.
func (w *hostEnv) try(dir string, env, argv []string) string {
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

// otherLLVM reports whether a message is about bitcode of another LLVM: "(Producer: 'LLVM15.0.6'
// Reader: 'LLVM 14.0.6')".
func otherLLVM(printed string) bool {
	return strings.Contains(printed, "Producer: ") && strings.Contains(printed, "Reader: ")
}
