package quick

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// Environment is the environment of commands, and the part of it that is in keys.
type Environment struct{ All, Key []string }

// language lists the variables by which compilers choose the language of their messages, and the
// quotation marks.
var language = slices.Concat([]string{"LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LC_CTYPE", "TZ"}, looks[:])

// looks lists the variables by which gcc chooses colours and links.
var looks = [...]string{"GCC_COLORS", "GCC_URLS", "TERM_URLS"}

// Commands returns the environment of commands. Unlike a build from a manifest, it keeps the
// language of the user: the caller of the launcher expects the messages of the compiler.
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

// Spoken returns the language of the messages of gcc and clang, if it is not that of a build from a
// manifest. It is in the keys of actions that print messages in it. Setting it again changes
// nothing.
func Spoken() (env []string) {
	// LC_CTYPE selects the quotation marks
	for _, category := range []string{"LC_MESSAGES", "LC_CTYPE"} {
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

// Foreign lists variables that nvcc, its passes or gcc read, and that the passes of kbuild do not
// get. If one is set, the command is passed through to the compiler.
var Foreign = []string{"NVCC_CCBIN", "SYSTEM_INCLUDES", "CICC_PATH", "CUDA_ROOT", "NVVMIR_LIBRARY_DIR", "NV_NVVM_VERSION", "LLVMC_FLAGS", "NVASM_FLAGS", "DUMP_KNOBS_TO_FILE",
	"EDG_BASE", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "GCC_EXTRA_DIAGNOSTIC_OUTPUT", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "GCC_EXEC_PREFIX",
	"HIPCC_VERBOSE", "LD_PRELOAD", "CC_PRINT_OPTIONS", "CC_PRINT_HEADERS", "CC_LOG_DIAGNOSTICS", "CC_PRINT_PROC_STAT", "CC_PRINT_INTERNAL_STAT"}

// environ returns the variables that may change the outputs or the messages of a command. PATH is
// among them, and so are the variables of kbuild's own folders.
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
