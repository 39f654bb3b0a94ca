package run

import (
	"os"
	"strconv"
	"strings"
)

// HugePages is what makes malloc of a program take huge pages, for its environment. cudafe++ 11.8
// clears 128 MiB of tables for any source, cicc grows by as much: that is 45,000 page faults, or
// 64. CPU time of cudafe++ is 43 % less and of cicc 25 %. Where the kernel must first compact
// memory the same costs up to 50 % more, so it is only asked for while the kernel has need bytes of
// free memory in blocks of that size (docs/nvcc.md).
//
// Nothing comes of it, and no harm, without glibc 2.35 and where huge pages are off or everybody
// has them.
func HugePages(need int64) []string {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || !strings.Contains(string(mode), "[madvise]") || os.Getpagesize() != 4096 {
		return nil
	}
	free, err := os.ReadFile("/proc/buddyinfo")
	if err != nil || freeHuge(string(free)) < need {
		return nil
	}
	return []string{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}
}

// hugeOrder is that of a block of 2 MiB, in pages of 4 KiB.
const hugeOrder = 9

// freeHuge is the free memory in blocks of at least 2 MiB, in bytes, by /proc/buddyinfo: "Node 0,
// zone Normal" and the number of free blocks of each order.
func freeHuge(buddyinfo string) int64 {
	var pages int64
	for line := range strings.Lines(buddyinfo) {
		_, counts, ok := strings.Cut(line, "zone")
		if !ok {
			continue
		}
		for i, f := range strings.Fields(counts) {
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && i > hugeOrder { // the zone's name is field 0
				pages += n << (i - 1)
			}
		}
	}
	return pages << 12
}
