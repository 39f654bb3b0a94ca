package run

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// peak returns the peak memory of a process, which rusage reports, or 0 if that is no more than
// what this process had.
//
// A child begins with the peak of its parent: it shares the parent's memory, or a copy, until it
// executes a program, and Linux counts that (exec_mmap in fs/exec.c). /bin/true started by a kbuild
// of 1.3 GB has a peak of 1.3 GB. If that counted as the need of every small compile of a large
// project, the next build could run only a few concurrently.
//
// rusage counts the largest process of the tree, not the sum of those that run together. The passes
// of nvcc and of g++ run one after another, so for them it is the peak of the tree. For a script
// that runs four compilers it is not.
func peak(rusage int64) int64 {
	// for most processes this saves a query to the kernel, which costs as much as a small file
	if !beyond(rusage, earlierPeak.Load()) {
		return 0
	}
	own := ownPeak()
	earlierPeak.Store(own)
	if !beyond(rusage, own) {
		return 0
	}
	return rusage
}

// earlierPeak is the last result of ownPeak; it never falls.
var earlierPeak atomic.Int64

// beyond reports whether rusage is more than the memory of this process. The kernel's counters are
// not exact to the page.
func beyond(rusage, own int64) bool { return rusage > own+own/16 }

// ownPeak returns the peak of this process's memory. Rusage would not do: it has the peak of the
// process that started kbuild, if that is larger.
func ownPeak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "\nVmHWM:")
	kib, _, _ := strings.Cut(after, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(kib), 10, 64)
	return n << 10
}
