package probe

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// nvlink of CUDA 13 loses the floating-point options that LTO-IR was compiled with. The program
// then computes other results, and nvlink exits with status 0. A trial finds whether a toolkit does
// so. It compiles a kernel that multiplies and adds, with denormals flushed and without
// contraction, and links it to PTX.

const multiplyAdd = `extern "C" __attribute__((global)) void k(float *p) { *p = p[1] * p[2] + p[3]; }` + "\n"

// ltoFloats returns the value of Toolkit.LTOFloats.
func (w *hostEnv) ltoFloats(k *cuda.Toolkit, d dry) string {
	for _, tool := range []string{"cicc", "fatbinary", "nvlink"} {
		if k.Programs[tool] == "" {
			return ""
		}
	}
	dir := w.folderWith("a.ii", multiplyAdd)
	defer os.RemoveAll(dir)
	if dir == "" || len(k.Archs) == 0 {
		return cuda.FloatsUntried
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	nvvm := d.nvvmPath
	if k.LibNVVM != "" {
		nvvm = in("nvvm")
		w.note(os.MkdirAll(in("nvvm/lib64"), 0o777))
		w.note(os.Symlink(k.LibNVVM, in("nvvm/lib64/libnvvm.so")))
	}
	const options = "-ftz=1 -prec_div=1 -prec_sqrt=1 -fmad=0"
	arch := k.Archs[0]
	argv := append([]string{k.Programs["cicc"], "-arch", arch.Virtual(), "-m64"}, strings.Fields(options)...)
	if _, err := w.answer(append(argv, "--device-c", "-lto", in("a.ii"), "-o", in("a.ltoir"))...); err != nil {
		return cuda.FloatsUntried
	}
	image := "--image3=kind=nvvm,sm=" + strings.TrimPrefix(arch.As(gencode.SASS).String(), "sm_") + ",file=" + in("a.ltoir")
	if _, err := w.answer(k.Programs["fatbinary"], "-64", "--device-c", "--cicc-cmdline="+options+" ", image, "--create="+in("a.fatbin")); err != nil {
		return cuda.FloatsUntried
	}
	link := func(more ...string) string {
		os.Remove(in("a.ptx"))
		w.answer(append([]string{k.Programs["nvlink"], "-m64", "--arch=" + arch.String(), "-ignore-host-info", "-emit-ptx", "-o", in("a.ptx"), "-dlto",
			"-nvvmpath=" + nvvm, in("a.fatbin")}, more...)...)
		ptx, _ := regular.Read(in("a.ptx"))
		return string(ptx)
	}
	remembers := func(ptx string) bool { return strings.Contains(ptx, "mul.rn.ftz.f32") }
	switch ptx := link(); {
	case remembers(ptx):
		return ""
	case !strings.Contains(ptx, "fma.rn.f32"):
		return cuda.FloatsUntried
	case remembers(link(nvcc.Arithmetic(toolchain.Floats{FTZ: true, PrecDiv: true}))):
		return cuda.FloatsTold
	}
	return cuda.FloatsLost
}
