// Package machine reports how much memory a build may use: that of the machine, or what the control
// groups of this process have left. It knows nothing of builds. How many processors it may use is
// runtime.GOMAXPROCS, which knows quotas.
//
// The functions read Linux's files below a root directory, "/" except in tests. A missing file, as
// on other systems, means no limit.
package machine

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Memory returns how many bytes processes can allocate now without swapping and without being
// killed, or 0 if unknown.
//
// It counts available memory, not installed memory: of a desktop's 16 GiB, a browser, an editor and
// its language server use six. Page cache is available, since the kernel reclaims it. Each control
// group of this process counts in the same way: its limit, minus what its processes use. Beyond
// memory.high the kernel does not kill but throttles processes almost to a halt, so it is a limit
// like memory.max.
func Memory(root string) int64 {
	free := int64(math.MaxInt64)
	if kib, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		free = kib << 10
	}
	for _, dir := range groups(root) {
		free = min(free, left(dir))
	}
	if free == math.MaxInt64 {
		return 0
	}
	return max(1, free) // 0 would mean no limit
}

// MemoryLimit returns how many bytes the control groups of this process allow, whatever is in use,
// or 0 for no limit.
func MemoryLimit(root string) int64 {
	limit := int64(math.MaxInt64)
	for _, dir := range groups(root) {
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

// left returns the unused memory of a control group of version 2 or 1.
func left(dir string) int64 {
	limit := memoryLimit(dir)
	for _, name := range []string{"memory.current", "memory.usage_in_bytes"} {
		if used, ok := number(filepath.Join(dir, name)); ok {
			return limit - max(0, used-pageCache(filepath.Join(dir, "memory.stat")))
		}
	}
	return limit
}

// pageCache returns how much of a control group's use is page cache, from memory.stat. Version 1
// counts its subgroups separately.
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

// number reads a file with one number. It returns false for "max".
func number(name string) (int64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field reads a number from a file of lines "name number".
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

// groups returns the folders of the control groups of this process for memory, the innermost
// first. They are of version 2 and of version 1, since a machine may have both. A folder may lack
// the files of memory.
func groups(root string) []string {
	var dirs []string
	for _, m := range mounts(root) {
		inner, ok := m.member(root)
		if !ok {
			continue
		}
		for ; inner != "."; inner = path.Dir(inner) {
			dirs = append(dirs, filepath.Join(root, m.point, inner))
		}
		dirs = append(dirs, filepath.Join(root, m.point))
	}
	return dirs
}

// mount is a mounted file system of control groups.
type mount struct {
	top   string // the group at its mount point
	point string // the mount point
	first bool   // version 1, for some controllers; else version 2
}

// mounts parses /proc/self/mountinfo:
//
//	35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
func mounts(root string) []mount {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	var all []mount
	for line := range strings.Lines(string(text)) {
		place, kind, _ := strings.Cut(line, " - ")
		p := strings.Fields(place)
		kind, _, _ = strings.Cut(kind, " ")
		if len(p) >= 5 && (kind == "cgroup" || kind == "cgroup2") {
			all = append(all, mount{top: p[3], point: p[4], first: kind == "cgroup"})
		}
	}
	return all
}

// member finds this process in /proc/self/cgroup: "0::/user.slice" for version 2,
// "4:cpu,cpuacct:/build" for version 1. inner is the path of its group below the mount, "." for the
// mount itself.
func (m mount) member(root string) (inner string, ok bool) {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (m.first && slices.Contains(strings.Split(f[1], ","), "memory") || !m.first && f[0] == "0") {
			return m.below(f[2]), true
		}
	}
	return "", false
}

// below returns the path of a group relative to the mount, or "." for a group outside of the mount,
// which is invisible.
func (m mount) below(group string) string {
	inner, err := filepath.Rel(m.top, group)
	if err != nil || inner == ".." || strings.HasPrefix(inner, "../") {
		return "."
	}
	return inner
}
