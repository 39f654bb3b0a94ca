package run

import (
	"slices"
	"strings"
)

// Environment is the environment that kbuild was started with: NAME=VALUE for each variable. The
// command line reads it once, and hands it to those who need it.
type Environment []string

// LookUp returns the value of a variable. ok is false if it is not set.
func (e Environment) LookUp(name string) (value string, ok bool) {
	for _, v := range e {
		if value, ok = strings.CutPrefix(v, name); ok && strings.HasPrefix(value, "=") {
			return value[1:], true
		}
	}
	return "", false
}

// Get returns the value of a variable, or "" if it is not set.
func (e Environment) Get(name string) string {
	value, _ := e.LookUp(name)
	return value
}

// Use is a set of the things that an environment variable can affect.
type Use uint16

const (
	Passed      Use = 1 << iota // commands see it
	Keyed                       // it can change an output of a command: it is in keys
	Probed                      // facts about the host environment depend on it
	AMD                         // hipcc and clang read it for HIP; facts depend on it too
	GPUs                        // it chooses which GPUs a program may use, and their numbers
	NVCCOptions                 // options of nvcc
	PassOptions                 // options of the programs that nvcc runs
	Headers                     // folders that compilers search for headers
	Folders                     // where kbuild's own folders are
	Language                    // the language and the look of messages: a launched command has the user's
	Look                        // of these, what gcc alone reads
	Launched                    // a launched command depends on it
	Foreign                     // compilers read it, and split passes do not get it: the launcher falls back
)

// variables is the table of all variables that matter, besides those of kbuild itself.
//
// Passed are those that nvcc, its sub-tools, gcc and ld read, found by logging getenv under nvcc
// 11.8 and 12.4. Other variables that they read (DEPENDENCIES_OUTPUT, EDG_BASE,
// DUMP_KNOBS_TO_FILE, ...) would make a build depend on hidden settings. PATH is not Keyed: the
// programs that are found through it are in keys by content. TMPDIR and its like are not passed: a
// command gets a temporary folder of its own. MAKEFLAGS is not passed either. Only kbuild uses the
// jobserver in it, and a token that a child takes and never returns stops the whole make.
//
// AMD are those of hipvars.pm and hipcc.pl of 5.2, and of clang 15.
var variables = [...]struct {
	uses  Use
	names []string
}{
	{Passed | Probed, []string{"PATH"}},
	{Passed | Folders | Launched, []string{"HOME"}},
	{Passed, []string{"USER", "LOGNAME"}},
	{Passed | Keyed | Probed, []string{"LD_LIBRARY_PATH"}},
	{Passed | Keyed | NVCCOptions, []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}},
	{Passed | Keyed | Foreign, []string{"NVCC_CCBIN"}},
	{Passed | Keyed | Probed | PassOptions, []string{"INCLUDES", "LIBRARIES"}},
	{Passed | Keyed | PassOptions, []string{"CUDAFE_FLAGS", "PTXAS_FLAGS", "NVVM_FLAGS", "OCG_FLAGS",
		"NVLINK_FLAGS"}},
	{Passed | Keyed | Headers, []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}},
	{Passed | Keyed, []string{"LIBRARY_PATH", "LPATH", "LD_RUN_PATH", "GNUTARGET", "LDEMULATION",
		"SOURCE_DATE_EPOCH"}},
	{Foreign, []string{"SYSTEM_INCLUDES", "CICC_PATH", "CUDA_ROOT", "NVVMIR_LIBRARY_DIR",
		"NV_NVVM_VERSION", "LLVMC_FLAGS", "NVASM_FLAGS", "DUMP_KNOBS_TO_FILE", "EDG_BASE",
		"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG",
		"GCC_EXTRA_DIAGNOSTIC_OUTPUT"}},
	{AMD | Foreign, []string{"CCC_OVERRIDE_OPTIONS"}},
	{Passed | Keyed | Probed | Foreign, []string{"COMPILER_PATH", "GCC_EXEC_PREFIX"}},
	{Foreign, []string{"HIPCC_VERBOSE", "LD_PRELOAD", "CC_PRINT_OPTIONS", "CC_PRINT_HEADERS",
		"CC_LOG_DIAGNOSTICS", "CC_PRINT_PROC_STAT", "CC_PRINT_INTERNAL_STAT"}},
	{Probed, []string{"CUDA_HOME", "CUDA_PATH"}},
	{AMD, []string{"DEVICE_LIB_PATH", "HCC_AMDGPU_TARGET", "HIPCC_COMPILE_FLAGS_APPEND",
		"HIPCC_LINK_FLAGS_APPEND", "HIP_CLANG_HCC_COMPAT_MODE", "HIP_CLANG_INCLUDE_PATH",
		"HIP_CLANG_PATH", "HIP_COMPILER", "HIP_COMPILE_CXX_AS_HIP", "HIP_DEVICE_LIB_PATH",
		"HIP_LIB_PATH", "HIP_PATH", "HIP_ROCCLR_HOME", "HIP_RUNTIME", "HSA_PATH", "ROCM_PATH"}},
	{GPUs, []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES",
		"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}},
	{Folders, []string{"XDG_CACHE_HOME", "TMPDIR"}},
	{Language, []string{"LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LC_CTYPE", "TZ"}},
	{Language | Look, []string{"GCC_COLORS", "GCC_URLS", "TERM_URLS"}},
	{Launched, []string{"HIP_PLATFORM", "PWD"}},
}

// Names returns the variables that matter to any of uses, in the order of the table.
func Names(uses Use) (names []string) {
	for _, row := range variables {
		if row.uses&uses != 0 {
			names = append(names, row.names...)
		}
	}
	return names
}

// Matters reports whether a variable of the form NAME=VALUE matters to any of uses.
func Matters(variable string, uses Use) bool {
	name, _, _ := strings.Cut(variable, "=")
	for _, row := range variables {
		if row.uses&uses != 0 && slices.Contains(row.names, name) {
			return true
		}
	}
	return false
}

// fixed lists the variables that are the same for all users. Messages are parsed, kept in the cache
// and shown to others, so they are in plain English. The time of __TIME__ is not in the user's
// zone.
var fixed = []string{"LC_ALL=C", "TZ=UTC"}

// Environ returns the environment of commands: the variables of parent that are Passed, LC_ALL=C
// and TZ=UTC, sorted. Then follows extra, which wins over both. An empty variable is left out, so
// that it gives the same keys as one that is not set.
func Environ(parent, extra []string) []string {
	out := slices.Clone(fixed)
	for _, e := range parent {
		if _, value, _ := strings.Cut(e, "="); value != "" && Matters(e, Passed) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return append(out, extra...)
}

// Select returns the variables of env that matter to any of uses, sorted. An empty variable counts,
// unlike in Environ: CUDA_VISIBLE_DEVICES= hides all GPUs.
func Select(env []string, uses Use) (out []string) {
	for _, e := range env {
		if Matters(e, uses) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// WithLibraryFolders puts folders in front of the LD_LIBRARY_PATH of env. If env has several of
// that name, the last counts.
func WithLibraryFolders(env, dirs []string) []string {
	const name = "LD_LIBRARY_PATH="
	if len(dirs) == 0 {
		return env
	}
	path, before := strings.Join(dirs, ":"), ""
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		value, is := strings.CutPrefix(e, name)
		if is {
			before = value
		}
		return is
	})
	if before != "" {
		path += ":" + before
	}
	return append(out, name+path)
}
