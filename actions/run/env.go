package run

import (
	"slices"
	"sort"
	"strings"
)

// passed lists the variables of the user that a command sees; true are those that can change an
// output. The list is what nvcc, its sub-tools, gcc and ld read, found by logging getenv under nvcc
// 11.8 and 12.4. Other variables that they read (DEPENDENCIES_OUTPUT, EDG_BASE, DUMP_KNOBS_TO_FILE,
// ...) would make a build depend on hidden settings.
//
// TMPDIR and its like are not passed: a command gets a temporary folder of its own. MAKEFLAGS is
// not passed either. Only kbuild uses the jobserver in it, and a token that a child takes and never
// returns stops the whole make.
var passed = map[string]bool{
	"PATH": false, "HOME": false, "USER": false, "LOGNAME": false, "LD_LIBRARY_PATH": true,
	"NVCC_PREPEND_FLAGS": true, "NVCC_APPEND_FLAGS": true, "NVCC_CCBIN": true,
	"INCLUDES": true, "LIBRARIES": true, "CUDAFE_FLAGS": true, "PTXAS_FLAGS": true, "NVVM_FLAGS": true,
	"OCG_FLAGS": true, "NVLINK_FLAGS": true,
	"CPATH": true, "C_INCLUDE_PATH": true, "CPLUS_INCLUDE_PATH": true,
	"LIBRARY_PATH": true, "LPATH": true, "COMPILER_PATH": true, "GCC_EXEC_PREFIX": true,
	"LD_RUN_PATH": true, "GNUTARGET": true, "LDEMULATION": true, "SOURCE_DATE_EPOCH": true,
}

// fixed lists the variables that are the same for all users. Messages are parsed, kept in the cache
// and shown to others, so they are in plain English. The time of __TIME__ is not in the user's
// zone.
var fixed = []string{"LC_ALL=C", "TZ=UTC"}

// Environ returns the environment of commands: the variables of parent on the allow-list, LC_ALL=C
// and TZ=UTC, sorted. Then follows extra, which wins over both. An empty variable is left out, so
// that it gives the same keys as one that is not set.
func Environ(parent, extra []string) []string {
	var out []string
	for _, e := range parent {
		name, value, _ := strings.Cut(e, "=")
		if _, ok := passed[name]; ok && value != "" {
			out = append(out, e)
		}
	}
	out = append(out, fixed...)
	sort.Strings(out)
	return append(out, extra...)
}

// KeyEnviron returns the variables of env that can change an output, sorted. PATH is not among
// them: the programs that are found through it are in keys by content.
func KeyEnviron(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if passed[name] {
			out = append(out, e)
		}
	}
	sort.Strings(out)
	return out
}

// HIPNames lists the variables that hipcc and clang read for HIP (hipvars.pm and hipcc.pl of 5.2,
// clang 15).
var HIPNames = [...]string{"CCC_OVERRIDE_OPTIONS", "DEVICE_LIB_PATH", "HCC_AMDGPU_TARGET", "HIPCC_COMPILE_FLAGS_APPEND", "HIPCC_LINK_FLAGS_APPEND",
	"HIP_CLANG_HCC_COMPAT_MODE", "HIP_CLANG_INCLUDE_PATH", "HIP_CLANG_PATH", "HIP_COMPILER", "HIP_COMPILE_CXX_AS_HIP", "HIP_DEVICE_LIB_PATH",
	"HIP_LIB_PATH", "HIP_PATH", "HIP_ROCCLR_HOME", "HIP_RUNTIME", "HSA_PATH", "ROCM_PATH"}

// chooseGPUs lists the variables by which a user chooses which GPUs a program may use, and what
// their numbers mean.
var chooseGPUs = [...]string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}

// GPUEnviron returns the variables of parent that choose GPUs, sorted. An empty one counts, unlike
// in Environ: it hides all of them.
func GPUEnviron(parent []string) []string {
	var out []string
	for _, e := range parent {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(chooseGPUs[:], name) {
			out = append(out, e)
		}
	}
	sort.Strings(out)
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
