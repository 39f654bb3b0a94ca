package quick

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// Environment is what commands get, and what of it is in keys.
type Environment struct{ All, Key []string }

// language has the variables by which compilers choose the language of what they say, and its
// quotation marks.
var language = slices.Concat([]string{"LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LC_CTYPE", "TZ"}, looks[:])

// looks are those by which gcc chooses colours and links.
var looks = [...]string{"GCC_COLORS", "GCC_URLS", "TERM_URLS"}

// Commands is the environment of commands. It leaves to compilers the language of the user, unlike
// a build from a manifest: whoever calls the launcher reads what it says as the compiler's.
func Commands() Environment {
	all := slices.DeleteFunc(run.Environ(os.Environ(), nil), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(language, name)
	})
	e := Environment{Key: run.KeyEnviron(all)}
	for _, name := range language {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	e.All = all
	return e
}

// Spoken is the language in which gcc and clang speak, where it is another than that of a build
// from a manifest. It is in the keys of what says something to the user in it; setting it once more
// changes nothing.
func Spoken() (env []string) {
	for _, category := range []string{"LC_MESSAGES", "LC_CTYPE"} { // of the second are the quotation marks
		value := cmp.Or(os.Getenv("LC_ALL"), os.Getenv(category), os.Getenv("LANG"))
		if value == "" || value == "C" || value == "POSIX" {
			continue
		}
		env = append(env, category+"="+value)
		if list := os.Getenv("LANGUAGE"); category == "LC_MESSAGES" && list != "" {
			env = append(env, "LANGUAGE="+list)
		}
	}
	for _, name := range looks {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Foreign are variables that nvcc, what it runs, or gcc read, and that the passes of kbuild do not
// get: a command that has one is left to the compiler.
var Foreign = []string{"NVCC_CCBIN", "SYSTEM_INCLUDES", "CICC_PATH", "CUDA_ROOT", "NVVMIR_LIBRARY_DIR", "NV_NVVM_VERSION", "LLVMC_FLAGS", "NVASM_FLAGS", "DUMP_KNOBS_TO_FILE",
	"EDG_BASE", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "GCC_EXTRA_DIAGNOSTIC_OUTPUT", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "GCC_EXEC_PREFIX",
	"HIPCC_VERBOSE", "LD_PRELOAD", "CC_PRINT_OPTIONS", "CC_PRINT_HEADERS", "CC_LOG_DIAGNOSTICS", "CC_PRINT_PROC_STAT", "CC_PRINT_INTERNAL_STAT"}

// environ has the variables that may change what a command makes or says. PATH is among them, and
// so are the places of kbuild's own.
func environ() []string {
	env := Commands().All
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name == "HIP_PLATFORM" || slices.Contains(run.HIPNames[:], name) || strings.HasPrefix(e, "KBUILD_") || strings.HasPrefix(e, "CUDA_") || strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "PWD=") || isForeign(e) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	return slices.Compact(env)
}

func isForeign(e string) bool {
	name, value, _ := strings.Cut(e, "=")
	return value != "" && slices.Contains(Foreign, name)
}
