package nvcc

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

const (
	newer            = "{1} needs sm_{2}: drop older ones from the code of {target}, or put it under #if __CUDA_ARCH__ >= {2}0"
	relaxedConstexpr = `add flags = { nvcc = ["--expt-relaxed-constexpr"] } to {at}, or mark {names} __host__ __device__`
	extendedLambda   = `add flags = { nvcc = ["--extended-lambda"] } to {at}`
)

// messages are those of nvcc, cicc, ptxas and nvlink, the most useful first.
var messages = []toolchain.Message{
	{Pattern: `Undefined reference to '([^']+)'(?: in '([^']+)')?`, Kind: toolchain.Undefined},
	{Pattern: `Unresolved extern (?:function|variable) '([^']+)'`, Advice: toolchain.OtherFile},
	{Pattern: `Multiple definition of '([^']+)' in '([^']+)', first defined in '([^']+)'`, Kind: toolchain.Twice},
	{Pattern: `Linking globals named '([^']+)': symbol multiply defined`, Kind: toolchain.Twice},
	{Pattern: `could not open source file "([^"]+)"`, Kind: toolchain.NoHeader},
	{Pattern: `(?:Feature|Instruction|Modifier) '([^']+)' requires .target sm_(\d+)\w* or higher`, Advice: newer},
	{Pattern: `identifier "(__nanosleep|__match_(?:any|all)_sync)" is undefined`, Advice: strings.ReplaceAll(newer, "{2}", "70")},
	{Pattern: `identifier "(__reduce_(?:add|min|max|and|or|xor)_sync|__pipeline_memcpy_async)" is undefined`, Advice: strings.ReplaceAll(newer, "{2}", "80")},
	{Pattern: `no instance of overloaded function "(atomicAdd)" matches[^\n]*\n[^\n]*argument types are: \(double \*`,
		Advice: strings.NewReplacer("{1}", "atomicAdd of double", "{2}", "60").Replace(newer)},
	{Pattern: `unsupported (?:GNU|clang) version`, Advice: `the toolkit does not take this host compiler: install one that it does, ` +
		`and name it in toolchain "cuda" { host_compiler = "g++-N" }; kbuild doctor lists those that are here`},
	{Pattern: `annotation on lambda requires --extended-lambda`, Advice: "__device__ lambdas are an extension of nvcc: " + extendedLambda},
	{Pattern: `The closure type for a lambda .* '-+(?:expt-)?extended-lambda' is specified`, Advice: "mark the lambda __device__ and " + extendedLambda},
	{Pattern: `calling a constexpr __host__ function\("([^"]+)"\).*--expt-relaxed-constexpr`, Advice: relaxedConstexpr},
	{Pattern: `kernel launch from __device__ or __global__ functions requires separate compilation`,
		Advice: `kernels that start kernels need a device link: set mode = "rdc" on {at}`},
	{Pattern: `Value 'c\+\+20' is not defined for option 'std'`,
		Advice: `this nvcc does not know std = "c++20"; CUDA 12.0 and newer do: set cuda_std = "c++17" on {at} for its CUDA sources`},
	{Pattern: `Value '(c\+\+2[^0]|c\+\+[^2].|gnu[^']+)' is not defined for option 'std'`,
		Advice: `this nvcc does not know std = "{1}": set cuda_std = "c++17" on {at} for its CUDA sources`},
	{Pattern: `nvcc fatal\s*: Unknown option '([^']+)'`,
		Advice: "{1} is no option of nvcc: remove it from the flags of {at}, or move it to flags.host if it is one of the host compiler"},
}

// Explain returns the faults that the messages in the output of an action report.
func Explain(a *graph.Action, output string) []toolchain.Fault {
	faults := toolchain.Explain(messages, a, output)
	return slices.DeleteFunc(append(faults, tooMuchShared(a, output)...), func(f toolchain.Fault) bool {
		return slices.Equal(f.Names, []string{"operator()"}) // --expt-relaxed-constexpr does not help lambdas
	})
}

// optIn is the largest dynamic shared memory of a block, in KiB, by architecture (CUDA C++
// Programming Guide, technical specifications per compute capability). It is 48 for others.
var optIn = map[int]int{70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}

// tooMuchShared explains kernels with too large static arrays.
func tooMuchShared(a *graph.Action, output string) (faults []toolchain.Fault) {
	re := regexp.MustCompile(`Entry function '([^']+)' uses too much shared data \(0x([0-9a-f]+) bytes(?: \+ 0x[0-9a-f]+ bytes system)?, 0x([0-9a-f]+) max\)`)
	for _, m := range re.FindAllStringSubmatch(output, 1000) {
		uses, _ := strconv.ParseInt(m[2], 16, 64)
		limit, _ := strconv.ParseInt(m[3], 16, 64)
		text := fmt.Sprintf("{names} has %d bytes of static shared memory; at most %d are possible", uses, limit)
		for _, arch := range a.Archs {
			if code, err := gencode.Parse(arch); err == nil && optIn[code.Num] > 0 {
				text += fmt.Sprintf(". With extern __shared__ and cudaFuncSetAttribute(..., cudaFuncAttributeMaxDynamicSharedMemorySize, ...) a block on sm_%d may have %d KiB", code.Num, optIn[code.Num])
			}
		}
		faults = append(faults, toolchain.Fault{Names: m[1:2], Advice: text})
	}
	return faults
}
