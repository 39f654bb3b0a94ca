package run

import (
	"slices"
	"sort"
	"strings"
)

// passed are the variables a command may see. Those that can change an output are in keys as well.
// The list is what nvcc, its sub-tools, gcc and ld read, found by logging getenv under nvcc 11.8 and 12.4.
var passed = map[string]bool{ // true: in keys
	"PATH": false, "HOME": false, "USER": false, "LOGNAME": false, "LD_LIBRARY_PATH": false,
	"NVCC_PREPEND_FLAGS": true, "NVCC_APPEND_FLAGS": true, "NVCC_CCBIN": true,
	"INCLUDES": true, "LIBRARIES": true, "CUDAFE_FLAGS": true, "PTXAS_FLAGS": true, "NVVM_FLAGS": true,
	"OCG_FLAGS": true, "NVLINK_FLAGS": true,
	"CPATH": true, "C_INCLUDE_PATH": true, "CPLUS_INCLUDE_PATH": true,
	"LIBRARY_PATH": true, "LPATH": true, "COMPILER_PATH": true, "GCC_EXEC_PREFIX": true,
	"LD_RUN_PATH": true, "GNUTARGET": true, "LDEMULATION": true, "SOURCE_DATE_EPOCH": true,
}

// Environ is the environment of commands: an allow-list of the parent's, with messages in plain English
// (LC_ALL=C), since they are read and replayed, and times in UTC,
// plus extra. An empty variable is as none.
func Environ(parent, extra []string) []string {
	var out []string
	for _, e := range parent {
		name, value, _ := strings.Cut(e, "=")
		if _, ok := passed[name]; ok && value != "" {
			out = append(out, e)
		}
	}
	out = append(out, "LC_ALL=C", "TZ=UTC")
	sort.Strings(out)
	return append(slices.Compact(out), extra...)
}

// KeyEnviron are the variables of env that can change an output, sorted. PATH is not among them: the
// programs that are found through it are in keys by content.
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
