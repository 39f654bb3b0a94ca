// Package machine says how much memory and how many processors a build may use: what the machine
// has, or what is left of them to the control group that this process is in. It knows nothing of
// builds.
//
// The functions read Linux's files below a root directory, "/" but for tests. Where a file is
// missing, as on other systems, the bound that it would tell is not there.
package machine

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Memory is how many bytes processes can take now without any swapping or being killed; 0 is
// unknown.
//
// It is what is available and not what is built in: of a desktop's 16 GiB, a browser, an editor and
// its language server have six. Page cache is available, since the kernel gives it up. The same
// goes for each control group that this process is in: its limit, less what its processes hold by
// now. Beyond memory.high the kernel does not kill but slows down to a crawl, so it is a limit like
// memory.max.
func Memory(root string) int64 {
	free := int64(math.MaxInt64)
	if kib, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		free = kib << 10
	}
	for _, dir := range groups(root, "memory") {
		free = min(free, left(dir))
	}
	if free == math.MaxInt64 {
		return 0
	}
	return max(1, free) // 0 would be no bound
}

// MemoryLimit is how many bytes the control groups of this process allow, whatever is in use; 0 is
// no limit.
func MemoryLimit(root string) int64 {
	limit := int64(math.MaxInt64)
	for _, dir := range groups(root, "memory") {
		limit = min(limit, memoryLimit(dir))
	}
	if limit == math.MaxInt64 {
		return 0
	}
	return max(1, limit)
}

func memoryLimit(dir string) int64 {
	limit := int64(math.MaxInt64)
	for _, name := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		if n, ok := number(filepath.Join(dir, name)); ok {
			limit = min(limit, n)
		}
	}
	return limit
}

// left is what a control group of version 2 or 1 still has.
func left(dir string) int64 {
	limit := memoryLimit(dir)
	for _, name := range []string{"memory.current", "memory.usage_in_bytes"} {
		if used, ok := number(filepath.Join(dir, name)); ok {
			return limit - max(0, used-pageCache(filepath.Join(dir, "memory.stat")))
		}
	}
	return limit
}

// pageCache is how much of a control group's use are pages of files, by memory.stat. Version 1
// counts what is below apart.
func pageCache(stat string) (sum int64) {
	prefix := ""
	if _, ok := field(stat, "total_inactive_file"); ok {
		prefix = "total_"
	}
	for _, name := range []string{"inactive_file", "active_file"} {
		n, _ := field(stat, prefix+name)
		sum += n
	}
	return sum
}

// Processors is how many processes can compute at once: the processors that this process may run
// on, or fewer if a control group has a quota. The runtime's GOMAXPROCS knows the quota of the
// innermost group only, and takes it for two at least.
func Processors(root string) int {
	n := runtime.GOMAXPROCS(0)
	for _, dir := range groups(root, "cpu") {
		n = min(n, quota(dir))
	}
	return n
}

// quota is in processors, rounded up.
func quota(dir string) int {
	micros, period := int64(0), int64(0)
	if text, err := os.ReadFile(filepath.Join(dir, "cpu.max")); err == nil { // "200000 100000" or "max 100000"
		f := strings.Fields(string(text))
		if len(f) == 2 {
			micros, _ = strconv.ParseInt(f[0], 10, 64)
			period, _ = strconv.ParseInt(f[1], 10, 64)
		}
	} else {
		micros, _ = number(filepath.Join(dir, "cpu.cfs_quota_us")) // -1 is none
		period, _ = number(filepath.Join(dir, "cpu.cfs_period_us"))
	}
	if micros <= 0 || period <= 0 {
		return math.MaxInt
	}
	return int((micros + period - 1) / period)
}

// number reads a file that holds one number. "max" is none.
func number(name string) (int64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field reads a number of a file of lines "name number".
func field(file, name string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
