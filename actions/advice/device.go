package advice

import (
	"fmt"
	"github.com/kbuild-dev/kbuild/graph"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// launch explains a kernel launch in a source that a host compiler reads.
func (f *Failure) launch([][]string) []string {
	if info := f.Action.Kind.Info(); info.Lane != graph.LaneHost || !info.CompilesSource() {
		return nil
	}
	return []string{fmt.Sprintf("<<<...>>> starts a kernel, which only CUDA sources may: rename %s to end in .cu, or give %s language = \"cuda\"", f.Action.Name, f.Action.Target)}
}

// optIn is the largest dynamic shared memory of a block, in KiB, by architecture (CUDA C++
// Programming Guide, technical specifications per compute capability).
var optIn = [...]struct{ sm, kib int }{{50, 48}, {52, 48}, {53, 48}, {60, 48}, {61, 48}, {62, 48}, {70, 96}, {72, 96}, {75, 64}, {80, 163}, {86, 99}, {87, 163}, {89, 99}, {90, 227}, {100, 227},
	{103, 227}, {110, 227}, {120, 99}, {121, 99}}

// sharedMemory explains kernels with too large static arrays.
func (f *Failure) sharedMemory(found [][]string) (help []string) {
	for _, m := range found {
		uses, _ := strconv.ParseInt(m[2], 16, 64)
		limit, _ := strconv.ParseInt(m[3], 16, 64)
		text := fmt.Sprintf("%s has %d bytes of static shared memory; at most %d are possible", readable(m[1]), uses, limit)
		for _, arch := range f.Action.Archs {
			if code, err := gencode.Parse(arch); err == nil {
				for _, o := range optIn {
					if o.sm == code.Num && o.kib > 48 {
						text += fmt.Sprintf(". With extern __shared__ and cudaFuncSetAttribute(..., cudaFuncAttributeMaxDynamicSharedMemorySize, ...) a block on sm_%d may have %d KiB", o.sm, o.kib)
					}
				}
			}
		}
		help = append(help, text)
	}
	return help
}

// newerArch explains PTX that an architecture does not support.
func (f *Failure) newerArch(found [][]string) (help []string) {
	for _, m := range found {
		help = append(help, f.needs(m[1], m[2]))
	}
	return help
}

// needs returns the advice for code that requires newer GPUs than the target's oldest ones.
func (f *Failure) needs(what, arch string) string {
	return fmt.Sprintf("%s needs %s: drop older ones from the code of %s, or put it under #if __CUDA_ARCH__ >= %s0", what, arch, f.Action.Target, strings.TrimPrefix(arch, "sm_"))
}

// since are intrinsics that not all architectures have. Headers declare them under #if
// __CUDA_ARCH__ (CUDA C++ Programming Guide).
var since = [...]struct {
	names []string
	arch  string
}{
	{[]string{"__nanosleep", "__match_any_sync", "__match_all_sync"}, "sm_70"},
	{[]string{"__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync", "__pipeline_memcpy_async"}, "sm_80"},
}

// intrinsic explains names that are only declared for newer architectures.
func (f *Failure) intrinsic(found [][]string) (help []string) {
	for _, name := range unique(found, 1) {
		for _, s := range since {
			if slices.Contains(s.names, name) {
				help = append(help, f.needs(name, s.arch))
			}
		}
	}
	return help
}

func (f *Failure) atomicDouble([][]string) []string {
	return []string{f.needs("atomicAdd of double", "sm_60")}
}

// hostCompiler explains a compiler that is too new, or too old, for the toolkit's headers.
func (f *Failure) hostCompiler([][]string) []string {
	return []string{`the toolkit does not take this host compiler: install one that it does, and name it in toolchain "cuda" { host_compiler = "g++-N" }; kbuild doctor lists those that are here`}
}

// nvccFlag returns the attribute that passes an option to nvcc for the failed action's target.
func (f *Failure) nvccFlag(option string) string {
	return fmt.Sprintf("add flags = { nvcc = [%q] } to %s", option, at(f.Action.Target, f.Action.Pos))
}

func (f *Failure) extendedLambda([][]string) []string {
	return []string{"__device__ lambdas are an extension of nvcc: " + f.nvccFlag("--extended-lambda")}
}

// plainLambda explains a lambda without annotations that is passed to a kernel.
func (f *Failure) plainLambda([][]string) []string {
	return []string{"mark the lambda __device__ and " + f.nvccFlag("--extended-lambda")}
}

// relaxedConstexpr explains host functions in device code. The option does not help lambdas.
func (f *Failure) relaxedConstexpr(found [][]string) []string {
	names := slices.DeleteFunc(unique(found, 1), func(name string) bool { return name == "operator()" })
	if len(names) == 0 {
		return nil
	}
	return []string{f.nvccFlag("--expt-relaxed-constexpr") + ", or mark " + list(names) + " __host__ __device__"}
}

func (f *Failure) nestedLaunch([][]string) []string {
	return []string{`kernels that start kernels need a device link: set mode = "rdc" on ` + at(f.Action.Target, f.Action.Pos)}
}

func (f *Failure) standard(found [][]string) []string {
	std, since := found[0][1], ""
	if std == "c++20" {
		since = "; CUDA 12.0 and newer do"
	}
	return []string{fmt.Sprintf("this nvcc does not know std = %q%s: set cuda_std = \"c++17\" on %s for its CUDA sources",
		std, since, at(f.Action.Target, f.Action.Pos))}
}

func (f *Failure) unknownOption(found [][]string) []string {
	return []string{found[0][1] + " is no option of nvcc: remove it from the flags of " + at(f.Action.Target, f.Action.Pos) +
		", or move it to flags.host if it is one of the host compiler"}
}
